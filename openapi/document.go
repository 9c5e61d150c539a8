package openapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"sync"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
)

// Document is one OpenAPI document. It is drawn when first asked for and then
// kept compressed. It never changes: a change of what it describes makes
// another Document. Safe for concurrent use.
type Document struct {
	draw    func() (*drawing, error)
	version version
	// digest makes the ETag without drawing; it may be nil.
	digest func() string
	// Modified is when the resources it describes became as they are.
	Modified time.Time

	mu   sync.Mutex
	tag  string  // empty until known
	json Content // empty until drawn, as is the next
	pb   Content
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

func newContent(plain []byte) (Content, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(plain); err != nil {
		return Content{}, fmt.Errorf("compress document: %w", err)
	}
	if err := w.Close(); err != nil {
		return Content{}, fmt.Errorf("compress document: %w", err)
	}
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
func (d *Document) JSON() (Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.json.Gzip == nil {
		if _, err := d.drawLocked(); err != nil {
			return Content{}, err
		}
	}
	return d.json, nil
}

// Protobuf returns the document in the protobuf form of its version.
func (d *Document) Protobuf() (Content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pb.Gzip != nil {
		return d.pb, nil
	}
	plain, err := d.plainLocked()
	if err != nil {
		return Content{}, err
	}
	if plain, err = toProtobuf(plain, d.version); err != nil {
		return Content{}, fmt.Errorf("convert document to protobuf: %w", err)
	}
	d.pb, err = newContent(plain)
	return d.pb, err
}

// plainLocked returns the document as JSON, not compressed.
func (d *Document) plainLocked() ([]byte, error) {
	if d.json.Gzip == nil {
		return d.drawLocked()
	}
	return d.json.Bytes()
}

// drawLocked draws the document, keeps it, and returns it not compressed.
func (d *Document) drawLocked() ([]byte, error) {
	drawn, err := d.draw()
	if err != nil {
		return nil, err
	}
	plain, err := drawn.json()
	if err != nil {
		return nil, err
	}
	content, err := newContent(plain)
	if err != nil {
		return nil, err
	}
	if d.tag == "" && d.digest != nil {
		d.tag = d.digest()
	} else if d.tag == "" {
		d.tag = drawn.etag()
	}
	d.json = content
	return plain, nil
}

func toProtobuf(json []byte, v version) ([]byte, error) {
	var document proto.Message
	var err error
	if v == v2 {
		document, err = openapi_v2.ParseDocument(json)
	} else {
		document, err = openapi_v3.ParseDocument(json)
	}
	if err != nil {
		return nil, err
	}
	return proto.Marshal(document)
}
