"""Every error and warning class of tautcut. An error's message says what is wrong, shows the offending
value and names the fix. This module raises nothing itself and imports nothing.
"""


class TautcutError(Exception):
    """Base of every error that tautcut raises on purpose."""


class InputError(TautcutError, ValueError):
    """The input cannot be used; the message names the offending value and the fix."""


class NotEnoughMemoryError(InputError, MemoryError):
    """The input would take more memory than there is; the message has the sum and the fix."""


class EngineUnavailableError(TautcutError, ImportError):
    """An engine or partitioner was asked for by name and is not installed."""


class RankLostError(TautcutError, ConnectionError):
    """A process of a run over many does not answer; the message names it."""


class PeerFailedError(TautcutError):
    """Another process of a run over many could not go on; it has said why."""


class GraphWarning(UserWarning):
    """The graph is usable but peculiar: disconnected, isolated vertices, duplicate points."""


class InterruptedRunWarning(UserWarning):
    """The run was interrupted; the best partition seen so far is returned."""


class CollapseWarning(UserWarning):
    """A cluster vanished during the run, or is smaller than was asked for; the best partition seen is returned."""
