package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Names of drivers are those of CSI drivers: podspec.ValidateCSIDriverName. Names
// of devices and of requests are DNS labels, empty ones refused as such.

// validatePoolName requires DNS subdomains with slashes between them.
func validatePoolName(f validation.Field, name string) {
	if name == "" {
		f.Required("")
		return
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		f.TooLong(resourcev1.PoolNameMaxLength)
	}
	for part := range strings.SplitSeq(name, "/") {
		f.DNSSubdomain(part)
	}
}

// validateQualifiedName requires the name of an attribute or of a capacity: a C
// identifier, which the domain of a driver may stand before.
func validateQualifiedName(f validation.Field, name resourcev1.QualifiedName) {
	domain, id, qualified := strings.Cut(string(name), "/")
	switch {
	case !qualified:
		validateIdentifier(f, string(name))
		return
	case strings.Contains(id, "/"):
		f.Invalid(string(name), "must not contain more than one slash")
		return
	case domain == "":
		f.Invalid("", "the domain must not be empty")
	default:
		podspec.ValidateCSIDriverName(f, domain)
	}
	if id == "" {
		f.Invalid("", "the name must not be empty")
	} else {
		validateIdentifier(f, id)
	}
}

func validateIdentifier(f validation.Field, id string) {
	if len(id) > resourcev1.DeviceMaxIDLength {
		f.TooLong(resourcev1.DeviceMaxIDLength)
	}
	f.InvalidFor(id, content.IsCIdentifier(id))
}

// requestRef is the name of a request of a claim, or with the one of its
// alternatives that is meant.
type requestRef struct{ request, alternative string }

// requestNames are the names of a claim's requests, for those who refer to them.
type requestNames struct{ seen validation.Seen[requestRef] }

func namesOf(requests []resourcev1.DeviceRequest) requestNames {
	n := len(requests)
	for i := range requests {
		n += len(requests[i].FirstAvailable)
	}
	names := requestNames{validation.NewSeen[requestRef](n)}
	for i := range requests {
		r := &requests[i]
		names.seen.Again(requestRef{r.Name, ""})
		for j := range r.FirstAvailable {
			names.seen.Again(requestRef{r.Name, r.FirstAvailable[j].Name})
		}
	}
	return names
}

const notARequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

// validateRef requires the name of a request, or that and the name of an
// alternative: "request/alternative".
func (n *requestNames) validateRef(f validation.Field, ref string) {
	request, alternative, both := strings.Cut(ref, "/")
	if strings.Contains(alternative, "/") {
		f.Invalid(ref, notARequest)
		return
	}
	f.DNSLabel(request)
	if both {
		f.DNSLabel(alternative)
	}
	if both && alternative == "" || !n.seen.Has(requestRef{request, alternative}) {
		f.Invalid(ref, notARequest)
	}
}

// validateRefs is validateRef for a list. One that is too long is refused by its
// marker, and costs no more than that.
func (n *requestNames) validateRefs(f validation.Field, refs []string) {
	if len(refs) > resourcev1.DeviceRequestsMaxSize {
		return
	}
	for i := range refs {
		n.validateRef(f.Index(i), refs[i])
	}
}
