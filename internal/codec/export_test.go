package codec

// CachedBytes returns the size of the encodings cached in a record.
func CachedBytes(r *Record) int {
	n := 0
	for _, e := range []*encoding{r.json.Load(), r.protobuf.Load()} {
		if e != nil {
			n += len(e.data) + encodingOverhead
		}
	}
	return n
}
