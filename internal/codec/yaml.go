package codec

import (
	"bytes"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	yamlv2 "sigs.k8s.io/yaml/goyaml.v2"
)

// maxExpandedSize is the maximum size of a YAML document after the expansion of its aliases, in bytes. It
// equals the maximum size of a request body.
const maxExpandedSize = 3 << 20

// checkAliases rejects a YAML document whose aliases multiply its text. For example, a hundred thousand
// aliases can refer to one long string. The parser limits the number of resulting values, but not their
// size, and the conversion to JSON writes each of them. A document that cannot be parsed is accepted here;
// the parser reports it later.
func checkAliases(body []byte) error {
	if bytes.IndexByte(body, '*') < 0 || bytes.IndexByte(body, '&') < 0 {
		return nil
	}
	var document any
	if err := yamlv2.Unmarshal(body, &document); err != nil {
		return nil
	}
	if expandedSize(document, maxExpandedSize) > maxExpandedSize {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the aliases of the YAML document expand it to more than %d bytes", maxExpandedSize))
	}
	return nil
}

// expandedSize returns the approximate length of a document as JSON. It stops when the length
// exceeds limit.
func expandedSize(value any, limit int) int {
	size := 1
	switch value := value.(type) {
	case string:
		return size + len(value)
	case []any:
		for _, element := range value {
			if size += expandedSize(element, limit-size); size > limit {
				return size
			}
		}
	case map[any]any:
		for key, member := range value {
			if size += expandedSize(key, limit-size) + expandedSize(member, limit-size); size > limit {
				return size
			}
		}
	}
	return size
}
