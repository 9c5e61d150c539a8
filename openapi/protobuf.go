package openapi

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"mainstay.dev/mainstay/codec/jsonplan"
)

func toProtobuf(json []byte, v version) ([]byte, error) {
	if v == v2 {
		return v2Protobuf(json)
	}
	document, err := openapi_v3.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(document)
}

// chunkBytes is how much of a v2 document is converted at a time. On its way, the
// text takes forty times its size.
const chunkBytes = 512 << 10

// Numbers of the fields of the v2 message that are converted in chunks.
const (
	pathsField       = 8
	definitionsField = 9
)

// v2Protobuf converts the whole of a v2 document, paths and definitions in pieces,
// some side by side: each is a list of named things, so that the messages of the
// pieces, one after the other, are the message of all.
func v2Protobuf(json []byte) ([]byte, error) {
	rest := []byte{'{'}
	chunks := map[string][][]byte{}
	for name, value := range jsonplan.Members(json) {
		if name == "paths" || name == "definitions" {
			chunks[name] = chunk(value)
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = fmt.Appendf(rest, "%q:%s", name, value)
	}
	wire, err := convertV2(append(rest, `,"paths":{}}`...), func(d *openapi_v2.Document) proto.Message {
		d.Paths = nil
		return d
	})
	if err != nil {
		return nil, err
	}
	paths, err := convertChunks("paths", chunks["paths"], func(d *openapi_v2.Document) proto.Message { return d.Paths })
	if err != nil {
		return nil, err
	}
	definitions, err := convertChunks("definitions", chunks["definitions"], func(d *openapi_v2.Document) proto.Message { return d.Definitions })
	if err != nil {
		return nil, err
	}
	wire = protowire.AppendTag(wire, pathsField, protowire.BytesType)
	wire = protowire.AppendBytes(wire, paths)
	wire = protowire.AppendTag(wire, definitionsField, protowire.BytesType)
	return protowire.AppendBytes(wire, definitions), nil
}

// chunk cuts an object into smaller ones.
func chunk(object []byte) [][]byte {
	var chunks [][]byte
	var next []byte
	for name, value := range jsonplan.Members(object) {
		if len(next) > 0 && len(next)+len(value) > chunkBytes {
			chunks = append(chunks, append(next, '}'))
			next = nil
		}
		if next == nil {
			next = append(make([]byte, 0, chunkBytes), '{')
		} else {
			next = append(next, ',')
		}
		next = fmt.Appendf(next, "%q:%s", name, value)
	}
	if next != nil {
		chunks = append(chunks, append(next, '}'))
	}
	return chunks
}

// convertChunks converts the parts of a member of the document, and puts the
// messages together.
func convertChunks(member string, chunks [][]byte, message func(*openapi_v2.Document) proto.Message) ([]byte, error) {
	wires := make([][]byte, len(chunks))
	var next atomic.Int64
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(chunks) {
					return nil
				}
				document := `{"swagger":"2.0","info":{"title":"","version":""},`
				if member != "paths" {
					document += `"paths":{},`
				}
				var err error
				if wires[i], err = convertV2(fmt.Appendf(nil, "%s%q:%s}", document, member, chunks[i]), message); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return bytes.Join(wires, nil), nil
}

func convertV2(json []byte, message func(*openapi_v2.Document) proto.Message) ([]byte, error) {
	document, err := openapi_v2.ParseDocument(json)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(message(document))
}
