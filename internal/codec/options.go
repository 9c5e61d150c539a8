package codec

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// DecodeDeleteOptions decodes the body of a delete request. It accepts any apiVersion, because
// DeleteOptions are registered in every version of every group. The error message is intended for the
// client.
func DecodeDeleteOptions(body []byte, media Media) (*metav1.DeleteOptions, error) {
	var decoder serializer = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, optionTypes{}, optionTypes{},
		jsonserializer.SerializerOptions{Yaml: media == YAML})
	if media == Protobuf {
		decoder = protobuf.NewSerializer(optionTypes{}, optionTypes{})
	}
	if media == YAML {
		if err := CheckYAML(body); err != nil {
			return nil, err
		}
	}
	defaults := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	obj, _, err := decoder.Decode(body, &defaults, nil)
	if err != nil {
		return nil, err
	}
	options, ok := obj.(*metav1.DeleteOptions)
	if !ok {
		return nil, fmt.Errorf("decoded object cannot be converted to DeleteOptions: %T", obj)
	}
	return options, nil
}

type optionTypes struct{}

func (optionTypes) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if gvk.Kind != "DeleteOptions" {
		return nil, fmt.Errorf("no kind %q is registered for version %q", gvk.Kind, gvk.GroupVersion())
	}
	return &metav1.DeleteOptions{}, nil
}

func (optionTypes) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{{Version: "v1", Kind: "DeleteOptions"}}, false, nil
}

func (optionTypes) Recognizes(gvk schema.GroupVersionKind) bool { return gvk.Kind == "DeleteOptions" }
