"""Evaluation of tags and scores: functions of arrays.

``metrics`` and ``ranking`` compute metrics, ``thresholds`` selects thresholds, ``leave_one_out``
corrects the bias of leave-one-out scores, ``splits`` creates stratified folds, and ``evaluate``
combines them for a report.
"""
