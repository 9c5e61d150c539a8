package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// podspec.ValidateCSIDriverName validates driver names. Names of devices and requests are DNS labels.

// validatePoolName requires one or more DNS subdomains that are separated by slashes.
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

// validateQualifiedName validates the name of an attribute or capacity, which is a C identifier with an
// optional domain as its prefix.
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

// requestRef references a request of a claim, or an alternative of the request.
type requestRef struct{ request, alternative string }

// requestNames contains the names of the requests of a claim and of their alternatives.
type requestNames struct {
	seen validation.Duplicates[requestRef]
}

func namesOf(requests []resourcev1.DeviceRequest) requestNames {
	n := len(requests)
	for i := range requests {
		n += len(requests[i].FirstAvailable)
	}
	names := requestNames{validation.NewDuplicates[requestRef](n)}
	for i := range requests {
		r := &requests[i]
		names.seen.IsDuplicate(requestRef{r.Name, ""})
		for j := range r.FirstAvailable {
			names.seen.IsDuplicate(requestRef{r.Name, r.FirstAvailable[j].Name})
		}
	}
	return names
}

const notARequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

// validateRef requires the name of a request, or the name of an alternative in the form "request/alternative".
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

// validateRefs calls validateRef for each reference. It skips lists that are too long, because a +k8s marker
// rejects them.
func (n *requestNames) validateRefs(f validation.Field, refs []string) {
	if len(refs) > resourcev1.DeviceRequestsMaxSize {
		return
	}
	for i := range refs {
		n.validateRef(f.Index(i), refs[i])
	}
}
