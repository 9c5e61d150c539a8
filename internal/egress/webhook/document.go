package webhook

import (
	"bytes"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// maxYAML is the maximum size of a YAML response, in bytes. Parsing YAML takes several times as much memory as
// the text.
const maxYAML = 256 << 10

// Document converts a response to JSON and returns its apiVersion and kind, which are empty if absent. Like
// kube-apiserver, it accepts YAML. The result may share memory with the argument. It returns an error if the
// response is neither JSON nor YAML, or if apiVersion or kind is not a string.
func Document(response []byte) ([]byte, schema.GroupVersionKind, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(response, " \t\r\n"), []byte("{")) && len(response) <= maxYAML {
		if converted, err := yaml.YAMLToJSON(response); err == nil {
			response = converted
		}
	}
	gvk, err := jsonserializer.DefaultMetaFactory.Interpret(response)
	if err != nil {
		return nil, schema.GroupVersionKind{}, err
	}
	return response, *gvk, nil
}

// Review converts a response to JSON and returns its type, which is empty if absent. It returns an error for a
// kind other than the expected one; every version is accepted. If the response is a Status other than Success,
// Review returns its message as an error. The errors are reported to users and have kube-apiserver's messages.
// The result may share memory with the argument.
func Review(response []byte, kind schema.GroupKind) ([]byte, schema.GroupVersionKind, error) {
	document, gvk, err := Document(response)
	if err != nil {
		return nil, gvk, err
	}
	if gvk.Kind == "Status" && gvk.Version == "v1" {
		var status metav1.Status
		if err := json.Unmarshal(document, &status); err == nil && status.Status != metav1.StatusSuccess {
			return nil, gvk, errors.New(status.Message)
		}
	}
	if gvk.Kind != "" && gvk.Kind != kind.Kind {
		return nil, gvk, runtime.NewNotRegisteredErrForKind("webhook", gvk)
	}
	return document, gvk, nil
}
