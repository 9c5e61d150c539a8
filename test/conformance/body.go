package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

// decodeBody decodes a response body according to its media type. All encodings of an object result in the same
// JSON value. Bodies of other media types are returned as text.
func decodeBody(mediaType string, body []byte) (any, error) {
	base, _, _ := strings.Cut(mediaType, ";")
	switch {
	case len(body) == 0:
		return nil, nil
	case base == "application/json":
		return decodeJSON(body)
	case base == "application/yaml":
		asJSON, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, fmt.Errorf("decode YAML response: %w", err)
		}
		return decodeJSON(asJSON)
	case base == "application/vnd.kubernetes.protobuf" && strings.Contains(mediaType, "stream=watch"):
		return decodeFrames(body)
	case base == "application/vnd.kubernetes.protobuf":
		return decodeProtobuf(body)
	case body[0] == '{': // the index of OpenAPI v3 is sent as text/plain
		return decodeJSON(body)
	default:
		return string(body), nil
	}
}

// decodeRecorded decodes a recorded body like decodeBody.
func decodeRecorded(r Response, mediaType string) (any, error) {
	if len(r.Body) == 0 {
		return nil, nil
	}
	if r.Body[0] != '"' {
		return decodeJSON(r.Body)
	}
	var text string
	if err := json.Unmarshal(r.Body, &text); err != nil {
		return nil, err
	}
	if r.BodyEncoding == "base64" {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		return decodeBody(mediaType, raw)
	}
	return decodeBody(mediaType, []byte(text))
}

func decodeJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON response: %w", err)
	}
	if d.More() {
		return nil, errors.New("decode JSON response: there is more after the value")
	}
	return v, nil
}

// kinds is a scheme that contains the Go types of all built-in objects.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(kubernetesscheme.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(metav1beta1.AddMetaToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiregistrationv1.AddToScheme(s))
	return s
}()

// withVersion adds the version v1 to a protobuf envelope that has no version, because the decoder expects one.
// The envelopes of discovery documents have no version.
func withVersion(envelope []byte) []byte {
	magic := []byte("k8s\x00")
	var unknown runtime.Unknown
	if !bytes.HasPrefix(envelope, magic) || unknown.Unmarshal(envelope[len(magic):]) != nil || unknown.APIVersion != "" {
		return envelope
	}
	unknown.APIVersion = "v1"
	rest, err := unknown.Marshal()
	if err != nil {
		return envelope
	}
	return append(magic, rest...)
}

// decodeProtobuf decodes an object in Kubernetes' protobuf envelope to its Go type, and then to a JSON value.
func decodeProtobuf(body []byte) (any, error) {
	object, _, err := protobuf.NewSerializer(kinds, kinds).Decode(withVersion(body), nil, nil)
	if runtime.IsNotRegisteredError(err) {
		// Objects whose Go type is unknown here are compared as bytes.
		return base64.StdEncoding.EncodeToString(body), nil
	}
	if err != nil {
		return nil, fmt.Errorf("decode protobuf response: %w", err)
	}
	asJSON, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return decodeJSON(asJSON)
}

// RewriteEncoded is like RewriteBody, for a body in any encoding. A body that is not a complete protobuf
// object is rewritten as text.
func (m *Memory) RewriteEncoded(body []byte) ([]byte, error) {
	serializer := protobuf.NewSerializer(kinds, kinds)
	object, kind, err := serializer.Decode(body, nil, nil)
	if err != nil {
		return m.RewriteBody(body), nil
	}
	recorded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	live := m.RewriteBody(recorded)
	if bytes.Equal(recorded, live) {
		return body, nil
	}
	if object, err = kinds.New(*kind); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(live, object); err != nil {
		return nil, fmt.Errorf("rewrite a protobuf body: %w", err)
	}
	var encoded bytes.Buffer
	err = serializer.Encode(object, &encoded)
	return encoded.Bytes(), err
}

// decodeFrames decodes a complete protobuf watch. It is a sequence of events, each with a length prefix of four
// bytes.
func decodeFrames(body []byte) (any, error) {
	events := []any{}
	for len(body) > 0 {
		if len(body) < 4 || len(body)-4 < int(binary.BigEndian.Uint32(body)) {
			return nil, errors.New("read a protobuf watch: the last frame is cut short")
		}
		frame := body[4 : 4+binary.BigEndian.Uint32(body)]
		body = body[4+len(frame):]
		event, err := decodeFrame(frame)
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

func decodeFrame(frame []byte) (any, error) {
	var event metav1.WatchEvent
	if err := event.Unmarshal(frame); err != nil {
		return nil, fmt.Errorf("read a frame of a protobuf watch: %w", err)
	}
	object, err := decodeProtobuf(event.Object.Raw)
	if err != nil {
		return nil, err
	}
	return map[string]any{"type": event.Type, "object": object}, nil
}
