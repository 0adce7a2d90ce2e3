# Script of the tool "Custom Script" in digiKam's batch queue manager, which replaces $INPUT and
# $OUTPUT by quoted file names. It copies each JPEG file of the queue and writes ProtoTag's tags into
# the copy; digiKam reads them when it adds the copy to its album. Adapt the path of the model.
cp $INPUT $OUTPUT &&
prototag annotate $OUTPUT --embed --quiet -m "$HOME/model.prototag"
