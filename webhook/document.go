package webhook

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// maxYAML bounds responses in YAML, in bytes. Parsing YAML takes many times its
// length in memory.
const maxYAML = 256 << 10

// Document returns a response as JSON, and its apiVersion and kind, empty if it has
// none. Like kube-apiserver, it accepts YAML as well.
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
