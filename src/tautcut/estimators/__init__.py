"""The two scikit-learn estimators: thin skins that check what scikit-learn checks, build the graph, hand over to the
search and keep what comes back, `result_`. `shared` has the knobs and what both do, `entrance` what is said and weighed
as points come in. No algorithm lives here.
"""

from tautcut.estimators.classification import MTVClassifier as MTVClassifier
from tautcut.estimators.clustering import MTVClustering as MTVClustering
