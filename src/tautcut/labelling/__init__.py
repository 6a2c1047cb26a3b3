"""The labelling page: from a folder of unlabelled things to labels. `things` is what is labelled and how it is shown,
`journal` the answers on disk, `session` what follows from them, `refits` and `workshop` the processes that classify and
choose the next question meanwhile, `server` the page's addresses and who may ask for them, `exports` what is taken
away. An answer is on disk before it is acknowledged; nobody but the person at this machine gets in; no algorithm lives
here.
"""
