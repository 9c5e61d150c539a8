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

// models.bin, all integers uint32 and little endian, the sections one after
// another. The models of one Go package form a chunk, which is compressed as a
// whole; within it the v3 and the v2 schema of a model are neighbours, so that
// what they share costs next to nothing.
//
//	header   the number of models (M), of their uses (U), of kinds (K), of chunks (C)
//	names    M+1: where each model's name starts in the text section; ascending
//	places   M × 5: chunk; offset and length there of the v3, then of the v2 schema
//	digests  M × 4: half a SHA-256 of both schemas
//	uses     M+1: where each model's uses start in the next section
//	used     U: models
//	kinds    K × 4: start of the kind in the text, lengths of group and version, model
//	         (the kind is written group, version, kind; it ends where the next starts)
//	kindEnd  1: where the last kind ends
//	chunks   C × 2: where the chunk starts in the data section, its inflated length
//	dataEnd  1: where the last chunk ends
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

// packageOf cuts the type off a model's name.
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

// kindTable lists the kinds that have a model of their own.
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
