package endpoints

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// Every list type of the API has its metadata in field 1 and its items in
// field 2.
const (
	tagListMeta = 1<<3 | 2
	tagListItem = 2<<3 | 2
)

// respondProtobufList sends the items' messages in one list message. Its
// length stands first, so all messages are measured before the first byte.
func (c *call) respondProtobufList(t target, list *rest.List, records []*codec.Record) error {
	meta := listMeta(list)
	metaBytes, err := meta.Marshal()
	if err != nil {
		return fmt.Errorf("encode list metadata: %w", err)
	}
	sizes := make([]int, len(records))
	size := fieldSize(len(metaBytes))
	for i, record := range records {
		if sizes[i], err = record.ProtobufSize(c.resource.Version); err != nil {
			return err
		}
		size += fieldSize(sizes[i])
	}
	gvk := c.resource.Version.ListKind()
	total := codec.EnvelopeSize(gvk, size)
	buf := make([]byte, 0, min(total, chunk+chunk/2))
	buf = codec.AppendEnvelope(buf, gvk, size)
	buf = appendField(buf, tagListMeta, metaBytes)

	out := &protobufWriter{call: c, target: t, total: total}
	defer out.release()
	for i, record := range records {
		buf = binary.AppendUvarint(append(buf, tagListItem), uint64(sizes[i]))
		if buf, err = record.AppendProtobuf(buf, c.resource.Version); err != nil {
			return out.fail(err)
		}
		if len(buf) >= chunk {
			out.write(buf)
			buf = buf[:0]
		}
	}
	out.write(codec.CloseEnvelope(buf))
	out.close()
	return nil
}

func appendField(dst []byte, tag byte, message []byte) []byte {
	dst = append(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(message)))
	return append(dst, message...)
}

func fieldSize(message int) int {
	var scratch [binary.MaxVarintLen64]byte
	return 1 + binary.PutUvarint(scratch[:], uint64(message)) + message
}

// protobufWriter writes a body whose length is known, compressed where that
// pays.
type protobufWriter struct {
	call    *call
	target  target
	total   int
	started bool
	zip     *gzipWriter
}

func (o *protobufWriter) start() {
	o.started = true
	h := o.call.w.Header()
	if o.total >= gzipThreshold && acceptsGzip(o.call.r) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z := newGzip(o.call.w)
		o.zip = &z
	} else {
		h.Set("Content-Length", strconv.Itoa(o.total))
	}
	h.Set("Content-Type", o.target.media.String())
	o.call.w.WriteHeader(http.StatusOK)
}

func (o *protobufWriter) write(b []byte) {
	if !o.started {
		o.start()
	}
	var err error
	if o.zip != nil {
		_, err = o.zip.Write(b)
	} else {
		_, err = o.call.w.Write(b)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

// fail reports an error to the client, or, too late for that, breaks off.
func (o *protobufWriter) fail(err error) error {
	if !o.started {
		return err
	}
	panic(http.ErrAbortHandler)
}

func (o *protobufWriter) close() {
	if o.zip != nil && o.zip.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}

func (o *protobufWriter) release() {
	if o.zip != nil {
		o.zip.release()
	}
}
