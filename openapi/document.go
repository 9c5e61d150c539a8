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

// Document is one OpenAPI document. It is drawn when first asked for; what is
// sent compressed is then kept so, and what is sent plain for a while. It never
// changes: a change of what it describes makes another Document. Safe for
// concurrent use.
type Document struct {
	draw    func() (*drawing, error)
	version version
	// message describes the protobuf form.
	message func() *message
	// digest makes the ETag without drawing; it may be nil, or return nothing.
	digest func() string
	// Modified is when the resources it describes became as they are.
	Modified time.Time
	kept     *keeping

	mu       sync.Mutex
	tag      string // empty until known
	json, pb form
}

// form is a document in a media type. Either may be there, or both, or none.
type form struct {
	packed Content
	plain  []byte
	// asked is when plain was asked for last.
	asked time.Time
}

// keeping is what all documents have in common: it bounds those that are kept
// plain.
type keeping struct {
	idle time.Duration
	// free is how many bytes more may be kept.
	free atomic.Int64
	// compressors are used again: each takes up most of a megabyte.
	compressors sync.Pool
}

// Content is a document in one media type.
type Content struct {
	// Gzip is the content compressed, not to be changed.
	Gzip []byte
	// Size is the length of the content, in bytes, when not compressed.
	Size int
}

// Bytes returns the content not compressed. The caller owns the slice.
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

// gzipLevel makes half of what the fastest level makes of text that repeats itself
// that much, and takes no longer.
const gzipLevel = 3

// pack compresses a document.
func (k *keeping) pack(plain []byte) (Content, error) {
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
	w.Reset(io.Discard) // lets go of the buffer
	k.compressors.Put(w)
	return Content{Gzip: bytes.Clone(packed.Bytes()), Size: len(plain)}, nil
}

// ETag identifies the document, whatever its media type. It is not quoted. It
// costs less than the document itself.
func (d *Document) ETag() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tag == "" && d.digest != nil {
		d.tag = d.digest()
	}
	if d.tag == "" {
		drawn, err := d.draw()
		if err != nil {
			return "", err
		}
		d.tag = drawn.etag()
	}
	return d.tag, nil
}

// JSON returns the document as JSON.
func (d *Document) JSON() (Content, error) { return d.packed(&d.json, d.drawLocked) }

// Protobuf returns the document in the protobuf form of its version.
func (d *Document) Protobuf() (Content, error) { return d.packed(&d.pb, d.convertLocked) }

// PlainJSON returns the document as JSON, not compressed and not to be changed.
func (d *Document) PlainJSON() ([]byte, error) { return d.plain(&d.json, d.drawLocked) }

// PlainProtobuf is to Protobuf what PlainJSON is to JSON.
func (d *Document) PlainProtobuf() ([]byte, error) { return d.plain(&d.pb, d.convertLocked) }

func (d *Document) packed(f *form, makePlain func() ([]byte, error)) (Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.packed.Gzip != nil {
		return f.packed, nil
	}
	plain, err := f.read(makePlain)
	if err != nil {
		return Content{}, err
	}
	f.packed, err = d.kept.pack(plain)
	return f.packed, err
}

func (d *Document) plain(f *form, makePlain func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plain, err := f.read(makePlain)
	if err != nil {
		return nil, err
	}
	if f.plain != nil {
		f.asked = time.Now()
	} else {
		d.keepLocked(f, plain)
	}
	return plain, nil
}

// read returns the form plain, which is made if it is not there.
func (f *form) read(makePlain func() ([]byte, error)) ([]byte, error) {
	switch {
	case f.plain != nil:
		return f.plain, nil
	case f.packed.Gzip != nil:
		return f.packed.Bytes()
	default:
		return makePlain()
	}
}

// keepLocked keeps a plain form for those who ask for it next.
func (d *Document) keepLocked(f *form, plain []byte) {
	size := int64(len(plain))
	if d.kept.free.Add(-size) < 0 {
		d.kept.free.Add(size)
		return
	}
	f.plain, f.asked = plain, time.Now()
	time.AfterFunc(d.kept.idle, func() { d.forget(f) })
}

// forget drops a plain form, once it has not been asked for a while.
func (d *Document) forget(f *form) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rest := d.kept.idle - time.Since(f.asked); rest > 0 {
		time.AfterFunc(rest, func() { d.forget(f) })
		return
	}
	d.kept.free.Add(int64(len(f.plain)))
	f.plain = nil
}

// drawLocked draws the document and returns it as JSON.
func (d *Document) drawLocked() ([]byte, error) {
	drawn, err := d.draw()
	if err != nil {
		return nil, err
	}
	plain, err := drawn.json()
	if err != nil {
		return nil, err
	}
	if d.tag == "" && d.digest != nil {
		d.tag = d.digest()
	}
	if d.tag == "" {
		d.tag = drawn.etag()
	}
	return plain, nil
}

// convertLocked makes the protobuf form. The JSON that it takes is not kept for
// that: who reads one form seldom reads the other.
func (d *Document) convertLocked() ([]byte, error) {
	plain, err := d.json.read(d.drawLocked)
	if err != nil {
		return nil, err
	}
	if plain, err = toProtobuf(plain, d.message()); err != nil {
		return nil, fmt.Errorf("convert document to protobuf: %w", err)
	}
	return plain, nil
}
