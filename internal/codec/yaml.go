package codec

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	yamlv2 "sigs.k8s.io/yaml/goyaml.v2"
)

const (
	// maxIndicators is the maximum number of indicators in a YAML document; see indicators. The parser
	// allocates up to 1100 bytes per indicator.
	maxIndicators = 256 << 10
	// maxExpandedSize is the maximum size of a YAML document after the expansion of its aliases, in bytes. It
	// equals the maximum size of a request body.
	maxExpandedSize = 3 << 20
)

// CheckYAML rejects a YAML document that is too expensive to parse or to convert to JSON. It returns an API
// error. A document that cannot be parsed is accepted here; the parser reports it later.
func CheckYAML(body []byte) error {
	if indicators(body) > maxIndicators {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the YAML document has more than %d fields and list elements; send the object as JSON", maxIndicators))
	}
	return checkAliases(body)
}

// indicators returns an upper bound of the number of fields and list elements in a YAML document. The parser
// allocates a few hundred bytes for each of them, even if it takes only two bytes of the document. Indicators
// in strings are also counted.
func indicators(body []byte) int {
	n := 0
	for i, c := range body {
		switch c {
		case ',', '[', '{':
			n++
		case ':', '-', '?':
			// These bytes are indicators only before white space, which includes some line breaks that are
			// not ASCII.
			if i+1 == len(body) || body[i+1] <= ' ' || body[i+1] >= utf8.RuneSelf {
				n++
			}
		}
	}
	return n
}

// checkAliases rejects a YAML document whose aliases multiply its text. For example, a hundred thousand
// aliases can refer to one long string. The parser limits the number of resulting values, but not their
// size, and the conversion to JSON writes each of them.
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
