package codec

// RememberedBytes is the size of the encodings that a record holds.
func RememberedBytes(r *Record) int {
	n := 0
	for _, e := range []*encoding{r.json.Load(), r.protobuf.Load()} {
		if e != nil {
			n += len(e.data) + encodingOverhead
		}
	}
	return n
}
