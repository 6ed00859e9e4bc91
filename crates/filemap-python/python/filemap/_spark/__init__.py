"""What `filemap.spark` does that needs no Spark: options, filters, columns, parts."""
