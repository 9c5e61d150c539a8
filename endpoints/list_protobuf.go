package endpoints

import (
	"encoding/binary"
	"fmt"
	"net/http"

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

	out := &bodyWriter{w: c.w, r: c.r, turn: c.turn, mediaType: t.media.String(), code: http.StatusOK, length: total}
	defer out.release()
	for i, record := range records {
		c.takeTurn(i)
		buf = binary.AppendUvarint(append(buf, tagListItem), uint64(sizes[i]))
		if buf, err = record.AppendProtobuf(buf, c.resource.Version); err != nil {
			return out.fail(err)
		}
		if len(buf) >= chunk {
			if err := out.write(buf); err != nil {
				return out.fail(err)
			}
			buf = buf[:0]
		}
	}
	if err := out.finish(codec.CloseEnvelope(buf)); err != nil {
		return out.fail(err)
	}
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
