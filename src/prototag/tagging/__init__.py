"""The recommended method: from network vectors to scores of tags.

``tagger`` runs the stages of ``pipeline``, in memory (``in_memory``) or out-of-core
(``out_of_core``). The result is a ``model`` of arrays, which scores without scikit-learn.
``incremental`` updates single tags of a model, and ``tuning`` selects parameters by validation.
"""
