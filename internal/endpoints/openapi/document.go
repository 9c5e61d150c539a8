package openapi

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Document is an OpenAPI document, built on first use. The compressed form is cached permanently, and the
// uncompressed form as long as it is in use. A Document is immutable; a change of the resources creates a
// new Document. It is safe for concurrent use.
type Document struct {
	build   func() (*document, error)
	version version
	// message describes the protobuf form.
	message func() *message
	// digest returns the ETag without building the document, or "" if that is impossible. digest
	// may be nil.
	digest func() string
	// Modified is the time of the last change of the described resources, for the Last-Modified
	// header.
	Modified time.Time
	cache    *plainCache

	mu             sync.Mutex
	tag            string // empty until known
	json, protobuf representation
}

// representation is a document in a media type. The compressed and the plain form are created on
// demand.
type representation struct {
	gzipped  Content
	plain    []byte
	lastUsed time.Time // the last use of plain
}

// plainCache limits the memory of cached uncompressed documents. All documents of a server share one
// plainCache.
type plainCache struct {
	idle time.Duration
	// free is the remaining capacity, in bytes.
	free atomic.Int64
	// compressors are reused, because each uses almost a megabyte.
	compressors sync.Pool
}

// Content is a document in one media type.
type Content struct {
	// Gzip is the compressed content. It is shared and must not be modified.
	Gzip []byte
	// Size is the length of the uncompressed content in bytes.
	Size int
}

// Bytes decompresses the content. The caller owns the slice. An error means that Gzip is corrupt.
func (c Content) Bytes() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(c.Gzip))
	if err != nil {
		return nil, fmt.Errorf("inflate document: %w", err)
	}
	plain := make([]byte, c.Size)
	if _, err := io.ReadFull(r, plain); err != nil {
		return nil, fmt.Errorf("inflate document: %w", err)
	}
	return plain, nil
}

// gzipLevel is the compression level of documents.
const gzipLevel = 2

func (k *plainCache) compress(plain []byte) (Content, error) {
	var packed bytes.Buffer
	w, ok := k.compressors.Get().(*gzip.Writer)
	if ok {
		w.Reset(&packed)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(&packed, gzipLevel); err != nil {
			return Content{}, fmt.Errorf("compress document: %w", err)
		}
	}
	if _, err := w.Write(plain); err != nil {
		return Content{}, fmt.Errorf("compress document: %w", err)
	}
	if err := w.Close(); err != nil {
		return Content{}, fmt.Errorf("compress document: %w", err)
	}
	w.Reset(io.Discard) // releases the buffer
	k.compressors.Put(w)
	return Content{Gzip: bytes.Clone(packed.Bytes()), Size: len(plain)}, nil
}

// ETag returns the unquoted ETag, which is the same for all media types. It is usually computed without
// building the document. Otherwise, ETag blocks until the document is built, and returns the error of the
// build.
func (d *Document) ETag() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tag == "" && d.digest != nil {
		d.tag = d.digest()
	}
	if d.tag == "" {
		built, err := d.build()
		if err != nil {
			return "", err
		}
		d.tag = built.etag()
	}
	return d.tag, nil
}

// JSON returns the document as compressed JSON. The first call builds the document, which blocks,
// and returns an error if the build fails; the next call then tries again.
func (d *Document) JSON() (Content, error) { return d.gzipped(&d.json, d.buildLocked) }

// Protobuf returns the document in the compressed protobuf form of its version. It blocks and
// returns errors like JSON.
func (d *Document) Protobuf() (Content, error) { return d.gzipped(&d.protobuf, d.convertLocked) }

// PlainJSON returns the document as uncompressed JSON. The slice is shared and must not be modified. It is
// cached until it has not been used for Config.KeepPlain, if the memory limit permits; otherwise each call
// decompresses it. PlainJSON blocks and returns errors like JSON.
func (d *Document) PlainJSON() ([]byte, error) { return d.plain(&d.json, d.buildLocked) }

// PlainProtobuf returns the uncompressed protobuf form. The slice is shared and must not be
// modified. It blocks, caches and returns errors like PlainJSON.
func (d *Document) PlainProtobuf() ([]byte, error) { return d.plain(&d.protobuf, d.convertLocked) }

func (d *Document) gzipped(f *representation, makePlain func() ([]byte, error)) (Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.gzipped.Gzip != nil {
		return f.gzipped, nil
	}
	plain, err := f.read(makePlain)
	if err != nil {
		return Content{}, err
	}
	f.gzipped, err = d.cache.compress(plain)
	return f.gzipped, err
}

func (d *Document) plain(f *representation, makePlain func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plain, err := f.read(makePlain)
	if err != nil {
		return nil, err
	}
	if f.plain != nil {
		f.lastUsed = time.Now()
	} else {
		d.cacheLocked(f, plain)
	}
	return plain, nil
}

// read returns the uncompressed content. It calls makePlain if neither form is cached.
func (f *representation) read(makePlain func() ([]byte, error)) ([]byte, error) {
	switch {
	case f.plain != nil:
		return f.plain, nil
	case f.gzipped.Gzip != nil:
		return f.gzipped.Bytes()
	default:
		return makePlain()
	}
}

// cacheLocked caches uncompressed content, if there is room, until it has not been used for the duration
// cache.idle.
func (d *Document) cacheLocked(f *representation, plain []byte) {
	size := int64(len(plain))
	if d.cache.free.Add(-size) < 0 {
		d.cache.free.Add(size)
		return
	}
	f.plain, f.lastUsed = plain, time.Now()
	time.AfterFunc(d.cache.idle, func() { d.evict(f) })
}

// evict drops uncompressed content if it has not been used for the duration cache.idle. Otherwise, it
// schedules another call.
func (d *Document) evict(f *representation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rest := d.cache.idle - time.Since(f.lastUsed); rest > 0 {
		time.AfterFunc(rest, func() { d.evict(f) })
		return
	}
	d.cache.free.Add(int64(len(f.plain)))
	f.plain = nil
}

// buildLocked builds the document and returns it as JSON. It computes the ETag first, so that the ETag is never
// newer than the content if the resources change during the build. Otherwise, clients would keep the old content.
func (d *Document) buildLocked() ([]byte, error) {
	if d.tag == "" && d.digest != nil {
		d.tag = d.digest()
	}
	built, err := d.build()
	if err != nil {
		return nil, err
	}
	plain, err := built.json()
	if err != nil {
		return nil, err
	}
	if d.tag == "" {
		d.tag = built.etag()
	}
	return plain, nil
}

// convertLocked returns the document as protobuf. It does not cache the JSON, because clients rarely read
// both forms.
func (d *Document) convertLocked() ([]byte, error) {
	plain, err := d.json.read(d.buildLocked)
	if err != nil {
		return nil, err
	}
	if plain, err = toProtobuf(plain, d.message()); err != nil {
		return nil, fmt.Errorf("convert document to protobuf: %w", err)
	}
	return plain, nil
}
