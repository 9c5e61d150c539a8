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

// maxYAML is the maximum size of a YAML response, in bytes. Parsing YAML uses a multiple of its
// size in memory.
const maxYAML = 256 << 10

// Document returns a response as JSON, and its apiVersion and kind, empty if absent. Like
// kube-apiserver, it accepts YAML.
func Document(answer []byte) ([]byte, schema.GroupVersionKind, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte("{")) && len(answer) <= maxYAML {
		if converted, err := yaml.YAMLToJSON(answer); err == nil {
			answer = converted
		}
	}
	gvk, err := jsonserializer.DefaultMetaFactory.Interpret(answer)
	if err != nil {
		return nil, schema.GroupVersionKind{}, err
	}
	return answer, *gvk, nil
}

// Review returns a response that must be a review of a kind, in any version of its group: as JSON,
// with its type, empty if absent. A Status other than success is returned as an error. Errors are
// visible to users and have kube-apiserver's messages.
func Review(answer []byte, kind schema.GroupKind) ([]byte, schema.GroupVersionKind, error) {
	document, gvk, err := Document(answer)
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
