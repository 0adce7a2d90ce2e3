"""How good tags and scores are: functions of arrays, whoever made them.

``metrics`` measures, ``thresholds`` finds the best cuts exactly, ``cuts`` counts what every cut
gives, ``selection`` is the one figure that settings are chosen by, ``splits`` deals images into
folds, and ``evaluate`` puts it all together for a report.
"""
