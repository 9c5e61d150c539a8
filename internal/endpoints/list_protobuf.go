package endpoints

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Every list type of the API has its metadata in field 1 and its items in
// field 2.
const (
	tagListMeta = 1<<3 | 2
	tagListItem = 2<<3 | 2
)

// protobufList describes a protobuf list whose items are encoded one at a time.
type protobufList struct {
	gvk  schema.GroupVersionKind
	meta metav1.ListMeta
	// size returns the encoded size of a record's item in bytes. item appends the encoded item.
	size func(record *codec.Record) (int, error)
	item func(dst []byte, record *codec.Record) ([]byte, error)
}

// wholeList describes the list of the complete objects.
func (c *call) wholeList(list *rest.List) *protobufList {
	v := c.resource.Version
	return &protobufList{
		gvk: v.ListKind(), meta: listMeta(list),
		size: func(record *codec.Record) (int, error) { return record.ProtobufSize(v) },
		item: func(dst []byte, record *codec.Record) ([]byte, error) { return record.AppendProtobuf(dst, v) },
	}
}

// metadataList describes the list of the objects' metadata. Each object is decoded twice, once for its size
// and once for its encoding, so that only one decoded object is in memory at a time.
func metadataList(t target, list *rest.List) *protobufList {
	partial := func(record *codec.Record) (*metav1.PartialObjectMetadata, error) {
		obj, err := record.Shared()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", record.Name(), err)
		}
		return partialOf(obj, t.viewVersion), nil
	}
	return &protobufList{
		gvk: t.viewVersion.WithKind("PartialObjectMetadataList"), meta: listMeta(list),
		size: func(record *codec.Record) (int, error) {
			p, err := partial(record)
			if err != nil {
				return 0, err
			}
			return p.Size(), nil
		},
		item: func(dst []byte, record *codec.Record) ([]byte, error) {
			p, err := partial(record)
			if err != nil {
				return nil, err
			}
			size, from := p.Size(), len(dst)
			dst = slices.Grow(dst, size)[:from+size]
			_, err = p.MarshalToSizedBuffer(dst[from:])
			return dst, err
		},
	}
}

// respondProtobufList sends the messages of all items in one list message. The length of the list message
// is sent first, so all items are measured before the first byte is sent.
func (c *call) respondProtobufList(t target, list *protobufList, records []*codec.Record) error {
	metaBytes, err := list.meta.Marshal()
	if err != nil {
		return fmt.Errorf("encode list metadata: %w", err)
	}
	sizes := make([]int, len(records))
	size := fieldSize(len(metaBytes))
	for i, record := range records {
		if err := c.r.Context().Err(); err != nil {
			return err
		}
		if sizes[i], err = list.size(record); err != nil {
			return err
		}
		size += fieldSize(sizes[i])
	}
	total := codec.EnvelopeSize(list.gvk, size)
	buf := make([]byte, 0, min(total, chunkSize+chunkSize/2))
	buf = codec.AppendEnvelope(buf, list.gvk, size)
	buf = appendField(buf, tagListMeta, metaBytes)

	out := &bodyWriter{w: c.w, r: c.r, mediaType: t.media.String(), code: http.StatusOK, length: total}
	defer out.release()
	for i, record := range records {
		if err := c.r.Context().Err(); err != nil {
			return out.fail(err)
		}
		buf = binary.AppendUvarint(append(buf, tagListItem), uint64(sizes[i]))
		if buf, err = list.item(buf, record); err != nil {
			return out.fail(err)
		}
		if len(buf) >= chunkSize {
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
