"""The parts of `filemap.spark` that need no Spark: options, filters, columns, splits."""
