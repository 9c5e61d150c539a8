package webhook

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// maxYAML is how long an answer may be that is not JSON. Reading YAML takes many
// times its length.
const maxYAML = 256 << 10

// Document returns an answer as JSON, and the type that it says it is of, empty
// where it does not. Like kube-apiserver, it takes YAML as well.
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
