package registry

import (
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/rest/names"
)

const (
	// nameSuffixLength is the number of random characters after a generateName. maxNameLength is
	// the maximum length of a generated name, for all kinds.
	nameSuffixLength = 5
	maxNameLength    = 63
	// nameAttempts is how many generated names are tried before the client gets
	// the conflict (KEP-4420).
	nameAttempts = 8
	// nameAlphabet has no vowels, to avoid words, and no characters that look alike.
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// generateName appends a random suffix, shortening the base where needed, or returns the
// base where that is the name.
func (s *Strategy) generateName(base string, random *rand.Rand) string {
	if s.ExactGenerateName {
		return base
	}
	if limit := maxNameLength - nameSuffixLength; len(base) > limit {
		base = base[:limit]
	}
	name := make([]byte, 0, len(base)+nameSuffixLength)
	name = append(name, base...)
	for range nameSuffixLength {
		name = append(name, nameAlphabet[random.IntN(len(nameAlphabet))])
	}
	return string(name)
}

func (s *Strategy) validateName(name string, prefix bool) []string {
	if strings.ContainsRune(name, 0) {
		return []string{"may not contain a zero byte"} // no key could hold it
	}
	if s.ValidateName != nil {
		return s.ValidateName(name, prefix)
	}
	if names.IsSubdomain(name) {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
