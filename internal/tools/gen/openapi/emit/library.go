package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// libraryEncoder encodes the file models.bin, which consists of the following sections. Integers are
// little-endian uint32s. The models of a Go package form a chunk, which is compressed as a whole. In a chunk,
// the v3 schema of a model is next to its v2 schema, because the two are similar and compress well together.
//
//	header   the number of models (M), of their uses (U), of kinds (K), of chunks (C)
//	names    M+1: start of each model's name in the text section; ascending
//	places   M × 5: chunk; offset and length in the chunk of the v3 schema, then of the v2 schema
//	digests  M × 4: half of the SHA-256 of both schemas
//	uses     M+1: start of each model's uses in the next section
//	used     U: models
//	kinds    K × 4: start of the kind in the text, lengths of group and version, model
//	         (the text contains group, version, kind; a kind ends at the start of the next one)
//	kindEnd  1: end of the last kind
//	chunks   C × 2: start of the chunk in the data section, its uncompressed length
//	dataEnd  1: end of the last chunk
//	text, data
type libraryEncoder struct {
	models *models
	number map[string]uint32

	names, places, digests, uses, used, kinds, chunks []uint32

	text, data []byte
}

func encodeLibrary(m *models) ([]byte, error) {
	e := &libraryEncoder{models: m, number: map[string]uint32{}}
	names := m.names()
	for i, name := range names {
		e.number[name] = uint32(i)
		e.names = append(e.names, uint32(len(e.text)))
		e.text = append(e.text, name...)
		e.uses = append(e.uses, uint32(len(e.used)))
		for _, use := range m.uses[name] {
			n, ok := slices.BinarySearch(names, use)
			if !ok {
				return nil, fmt.Errorf("model %s refers to unknown %s", name, use)
			}
			e.used = append(e.used, uint32(n))
		}
	}
	e.names = append(e.names, uint32(len(e.text)))
	e.uses = append(e.uses, uint32(len(e.used)))
	for start := 0; start < len(names); {
		end := start + 1
		for end < len(names) && packageOf(names[end]) == packageOf(names[start]) {
			end++
		}
		if err := e.chunk(names[start:end]); err != nil {
			return nil, err
		}
		start = end
	}
	e.kindTable()
	return e.bytes(len(names)), nil
}

// packageOf returns the package in a model name.
func packageOf(name string) string { return name[:strings.LastIndexByte(name, '.')] }

func (e *libraryEncoder) chunk(names []string) error {
	var plain []byte
	for _, name := range names {
		v3, err := json.Marshal(e.models.v3[name])
		if err != nil {
			return fmt.Errorf("encode v3 schema of %s: %w", name, err)
		}
		v2, err := json.Marshal(e.models.v2[name])
		if err != nil {
			return fmt.Errorf("encode v2 schema of %s: %w", name, err)
		}
		n := uint32(len(plain))
		e.places = append(e.places, uint32(len(e.chunks)/2), n, uint32(len(v3)), n+uint32(len(v3)), uint32(len(v2)))
		both := slices.Concat(v3, v2)
		plain = append(plain, both...)
		sum := sha256.Sum256(both)
		for i := range 4 {
			e.digests = append(e.digests, binary.LittleEndian.Uint32(sum[4*i:]))
		}
	}
	e.chunks = append(e.chunks, uint32(len(e.data)), uint32(len(plain)))
	var compressed bytes.Buffer
	w, err := flate.NewWriter(&compressed, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	e.data = append(e.data, compressed.Bytes()...)
	return nil
}

// kindTable adds the kinds that have their own model. The kinds of the meta package share their models.
func (e *libraryEncoder) kindTable() {
	type entry struct {
		gvk   schema.GroupVersionKind
		model uint32
	}
	var entries []entry
	for name, kinds := range e.models.kinds {
		n, known := e.number[name]
		if !known || strings.HasPrefix(name, "io.k8s.apimachinery.") {
			continue
		}
		for _, gvk := range kinds {
			entries = append(entries, entry{gvk, n})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.gvk.Group, b.gvk.Group), cmp.Compare(a.gvk.Version, b.gvk.Version), cmp.Compare(a.gvk.Kind, b.gvk.Kind))
	})
	for _, k := range entries {
		e.kinds = append(e.kinds, uint32(len(e.text)), uint32(len(k.gvk.Group)), uint32(len(k.gvk.Version)), k.model)
		e.text = append(e.text, k.gvk.Group+k.gvk.Version+k.gvk.Kind...)
	}
}

func (e *libraryEncoder) bytes(models int) []byte {
	header := []uint32{uint32(models), uint32(len(e.used)), uint32(len(e.kinds) / 4), uint32(len(e.chunks) / 2)}
	words := slices.Concat(header, e.names, e.places, e.digests, e.uses, e.used,
		e.kinds, []uint32{uint32(len(e.text))}, e.chunks, []uint32{uint32(len(e.data))})
	out := make([]byte, 0, 4*len(words)+len(e.text)+len(e.data))
	for _, w := range words {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return append(append(out, e.text...), e.data...)
}
