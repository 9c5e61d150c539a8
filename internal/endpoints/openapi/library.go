package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature/emulation"
)

// modelsFile is written by the generator, which documents its format. Only the
// schemas in it are compressed; names and references are read in place.
//
//go:embed data/models.bin
var modelsFile string

// optionsFile contains the query parameters of each kind of options. It is written by the
// generator.
//
//go:embed data/options.json
var optionsFile []byte

// library contains the schemas of the built-in types. It is safe for concurrent use.
type library struct {
	// options returns the query parameters of each kind of options.
	options func() map[string][]parameter
	// digestOfAll returns a digest of all schemas and of the build information, because the
	// documents also depend on the code.
	digestOfAll func() string
	// messages contains functions that return the protobuf message of documents, by version.
	messages  [2]func() *message
	templates templates
	// commonChunk is the chunk with the schemas of metadata, which all documents need; nil until
	// its first use.
	commonChunk atomic.Pointer[chunk]

	// release is the emulated version; nil emulates no version. fewerUses returns, for each model that has
	// more fields than in release, the models to which the remaining fields refer; it is nil if release is
	// nil.
	release   *emulation.Release
	fewerUses func() map[uint32][]uint32

	names, positions, digests, uses, used, kinds, chunks table
	text, data                                           string
	size                                                 uint32
}

func openLibrary(file string) *library {
	header := table(file)
	models, used, kinds, chunks := header.at(0), header.at(1), header.at(2), header.at(3)
	rest := file[16:]
	cut := func(n uint32) table {
		part := rest[:4*n]
		rest = rest[4*n:]
		return table(part)
	}
	l := &library{
		options: sync.OnceValue(readOptions),
		messages: [2]func() *message{
			v2: sync.OnceValue(func() *message { return readMessages(v2Messages) }),
			v3: sync.OnceValue(func() *message { return readMessages(v3Messages) }),
		},
		size:      models,
		names:     cut(models + 1),
		positions: cut(5 * models),
		digests:   cut(4 * models),
		uses:      cut(models + 1),
		used:      cut(used),
		kinds:     cut(4*kinds + 1),
		chunks:    cut(2*chunks + 1),
	}
	l.digestOfAll = sync.OnceValue(func() string {
		build := ""
		if info, ok := debug.ReadBuildInfo(); ok {
			build = info.String()
		}
		return contentTag([]byte(string(l.digests) + build))
	})
	text := l.kinds.at(4 * kinds)
	l.text, l.data = rest[:text], rest[text:]
	return l
}

func readOptions() map[string][]parameter {
	var options map[string][]parameter
	if err := json.Unmarshal(optionsFile, &options); err != nil {
		panic(fmt.Sprintf("openapi: embedded options: %v", err))
	}
	return options
}

func (l *library) name(i uint32) string { return l.text[l.names.at(i):l.names.at(i+1)] }

// digest returns the digest of the schemas of model i.
func (l *library) digest(i uint32) string { return string(l.digests[16*i:][:16]) }

// find returns the index of a model by name.
func (l *library) find(name string) (uint32, bool) {
	low, high := uint32(0), l.size
	for low < high {
		middle := (low + high) / 2
		if l.name(middle) < name {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < l.size && l.name(low) == name
}

// kind returns the index of the model of a kind. It does not find the kinds of meta.k8s.io, which belong to
// every group version; callers must find these by name.
func (l *library) kind(gvk schema.GroupVersionKind) (uint32, bool) {
	low, high := uint32(0), uint32(len(l.kinds)/16)
	for low < high {
		middle := (low + high) / 2
		have := l.kindAt(middle)
		switch {
		case have == gvk:
			return l.kinds.at(4*middle + 3), true
		case kindLess(have, gvk):
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

func (l *library) kindAt(i uint32) schema.GroupVersionKind {
	row := l.kinds[16*i:]
	text := l.text[row.at(0):row.at(4)]
	version, kind := row.at(1), row.at(1)+row.at(2)
	return schema.GroupVersionKind{Group: text[:version], Version: text[version:kind], Kind: text[kind:]}
}

// closure adds to set the models that its models refer to, directly or indirectly.
func (l *library) closure(set map[uint32]bool) {
	var queue []uint32
	for i := range set {
		queue = append(queue, i)
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for use := range l.usesOf(i) {
			if !set[use] {
				set[use] = true
				queue = append(queue, use)
			}
		}
	}
}

// usesOf returns the models to which model i refers.
func (l *library) usesOf(i uint32) iter.Seq[uint32] {
	if l.fewerUses != nil {
		if uses, ok := l.fewerUses()[i]; ok {
			return slices.Values(uses)
		}
	}
	return func(yield func(uint32) bool) {
		for u := l.uses.at(i); u < l.uses.at(i+1); u++ {
			if !yield(l.used.at(u)) {
				return
			}
		}
	}
}

// version is a version of OpenAPI.
type version uint32

const (
	v3 version = iota
	v2
)

// chunk is an inflated block of schemas.
type chunk struct {
	number uint32
	plain  []byte
}

// inflater reads schemas. It caches the last chunk, so sequential reads decompress each chunk once.
type inflater struct {
	library *library
	at      *chunk
}

// schema returns the schema of model i as JSON. The slice is shared and must not be modified.
func (f *inflater) schema(i uint32, v version) ([]byte, error) {
	place := f.library.positions[20*i:]
	if number := place.at(0); f.at == nil || number != f.at.number {
		if err := f.inflate(number); err != nil {
			return nil, fmt.Errorf("inflate schema of %s: %w", f.library.name(i), err)
		}
	}
	start, length := place.at(1+2*uint32(v)), place.at(2+2*uint32(v))
	return f.library.withoutNewFields(f.library.name(i), f.at.plain[start:][:length])
}

func (f *inflater) inflate(number uint32) error {
	if common := f.library.commonChunk.Load(); common != nil && common.number == number {
		f.at = common
		return nil
	}
	chunks := f.library.chunks
	r := flate.NewReader(strings.NewReader(f.library.data[chunks.at(2*number):chunks.at(2*number+2)]))
	next := &chunk{number, make([]byte, chunks.at(2*number+1))}
	if _, err := io.ReadFull(r, next.plain); err != nil {
		return err
	}
	f.at = next
	if i, ok := f.library.find(metaModels + "ObjectMeta"); ok && f.library.positions[20*i:].at(0) == number {
		f.library.commonChunk.Store(next)
	}
	return nil
}
