"""Network vectors in, scores of tags out: the method as we recommend it.

``tagger`` learns by the row of ``stages``, each of which is made of ``reduction``, ``lifting``,
``kernel``, ``ridge`` and ``calibration``. What they learn is one ``model`` of arrays, which scores
without scikit-learn. ``tuning`` finds parameters by validation.
"""
