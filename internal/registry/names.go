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
	// nameAttempts is the maximum number of generated names per creation (KEP-4420).
	nameAttempts = 8
	// nameAlphabet has no vowels, to avoid words, and no characters that look alike.
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// generateName returns the base, shortened if necessary, with a random suffix. It returns the base
// itself if the strategy has ExactGenerateName.
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
		return []string{"may not contain a zero byte"} // storage keys cannot contain it
	}
	if s.ValidateName != nil {
		return s.ValidateName(name, prefix)
	}
	if names.IsSubdomain(name) {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}
