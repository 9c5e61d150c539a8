package http2

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headerDecoder decodes the header blocks of a connection. A block consists of HEADERS and the following
// CONTINUATION frames. headerDecoder replaces the Framer's ReadMetaHeaders, which limits neither the number of
// fields nor the number of frames. Only the reading goroutine uses it.
type headerDecoder struct {
	framer    *h2.Framer
	hpack     *hpack.Decoder
	maxSize   uint32 // maximum size of a header, calculated as for SETTINGS_MAX_HEADER_LIST_SIZE
	maxFrames int    // maximum number of frames in one block
	fields    []hpack.HeaderField
}

// retainedFields is the number of fields whose memory is retained between header blocks.
const retainedFields = 32

func newHeaderDecoder(framer *h2.Framer, s *settings) *headerDecoder {
	d := &headerDecoder{
		framer:  framer,
		hpack:   hpack.NewDecoder(s.decodeTable, nil),
		maxSize: s.headerList,
		// Clients can send frames of size minFrame. A quarter more frames allows for smaller ones.
		maxFrames: int(s.headerList/minFrame)*5/4 + 5,
	}
	d.hpack.SetMaxStringLength(int(d.maxSize))
	return d
}

// decode reads and decodes the header block that starts with f. If the header exceeds the maximum size or
// number of fields, the result is Truncated. For a malformed header, decode returns a StreamError. In both
// cases, decode has decoded the block to its end, to keep the state of HPACK consistent. If that is not
// possible, it returns a ConnectionError or the error of the read. The fields are valid until release.
func (d *headerDecoder) decode(f *h2.HeadersFrame) (*h2.MetaHeadersFrame, error) {
	b := headerBlock{fields: d.fields[:0], left: d.maxSize, leftFields: MaxHeaderFields, hpack: d.hpack}
	d.hpack.SetEmitEnabled(true)
	d.hpack.SetEmitFunc(b.add)
	fragment, last := f.HeaderBlockFragment(), f.HeadersEnded()
	for frames := 1; ; frames++ {
		if frames > d.maxFrames {
			return nil, errEnhanceYourCalm
		}
		// Data far beyond the limit is not decoded, nor is data after an invalid field.
		if len(fragment) > 2*int(b.left) || b.err != nil {
			return nil, h2.ConnectionError(h2.ErrCodeProtocol)
		}
		if _, err := d.hpack.Write(fragment); err != nil {
			return nil, h2.ConnectionError(h2.ErrCodeCompression)
		}
		if last {
			break
		}
		next, err := d.framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		c := next.(*h2.ContinuationFrame) // the Framer rejects any other frame here
		fragment, last = c.HeaderBlockFragment(), c.HeadersEnded()
	}
	d.fields = b.fields
	if err := d.hpack.Close(); err != nil {
		return nil, h2.ConnectionError(h2.ErrCodeCompression)
	}
	if b.err == nil {
		b.err = checkPseudo(b.fields)
	}
	if b.err != nil {
		return nil, h2.StreamError{StreamID: f.StreamID, Code: h2.ErrCodeProtocol, Cause: b.err}
	}
	return &h2.MetaHeadersFrame{HeadersFrame: f, Fields: b.fields, Truncated: b.truncated}, nil
}

// release drops the fields of the last block. It retains the memory of at most retainedFields fields.
func (d *headerDecoder) release() {
	d.hpack.SetEmitFunc(nil) // the function refers to the block
	if cap(d.fields) > retainedFields {
		d.fields = nil
		return
	}
	clear(d.fields)
	d.fields = d.fields[:0]
}

// headerBlock is a block being decoded.
type headerBlock struct {
	hpack      *hpack.Decoder
	fields     []hpack.HeaderField
	left       uint32 // remaining bytes
	leftFields int
	regular    bool // a regular field was received
	truncated  bool
	err        error // the error of a malformed block
}

// add processes the next field.
func (b *headerBlock) add(f hpack.HeaderField) {
	if b.err = b.check(f); b.err != nil {
		b.hpack.SetEmitEnabled(false)
		return
	}
	size, count := f.Size(), 1
	if f.Name == "trailer" { // each name in the value will become a field
		count += strings.Count(f.Value, ",")
		size += uint32(count-1) * hpack.HeaderField{}.Size()
	}
	if size > b.left || count > b.leftFields {
		b.truncated, b.left = true, 0
		b.hpack.SetEmitEnabled(false)
		return
	}
	b.left -= size
	b.leftFields -= count
	b.fields = append(b.fields, f)
}

func (b *headerBlock) check(f hpack.HeaderField) error {
	switch {
	case !httpguts.ValidHeaderFieldValue(f.Value):
		return fmt.Errorf("invalid value of header field %q", f.Name) // the value may be a secret
	case !f.IsPseudo():
		b.regular = true
		if !validFieldName(f.Name) {
			return fmt.Errorf("invalid header field name %q", f.Name)
		}
	case b.regular:
		return errors.New("pseudo header field after a regular one")
	}
	return nil
}

// validFieldName reports whether a name is a token without upper-case letters, as HTTP/2 requires.
func validFieldName(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && !strings.ContainsFunc(name, func(r rune) bool { return 'A' <= r && r <= 'Z' })
}

// checkPseudo returns an error if a pseudo header field is repeated or not permitted in requests.
func checkPseudo(fields []hpack.HeaderField) error {
	for i, f := range fields {
		if !f.IsPseudo() {
			return nil
		}
		switch f.Name {
		case ":method", ":path", ":scheme", ":authority", ":protocol":
		default:
			return fmt.Errorf("invalid pseudo header field %q", f.Name)
		}
		for _, before := range fields[:i] {
			if before.Name == f.Name {
				return fmt.Errorf("duplicate pseudo header field %q", f.Name)
			}
		}
	}
	return nil
}
