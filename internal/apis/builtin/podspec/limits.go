package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/rest/names"
)

// resourceRule validates the name of a resource.
type resourceRule func(f validation.Field, name corev1.ResourceName)

func (p *pod) validateContainerResources(f validation.Field, r *corev1.ResourceRequirements) {
	validateRequirements(f, r, ValidateContainerResource)
	p.validateUsedClaims(f.Child("claims"), r.Claims)
}

// validatePodResources validates pod-level resources. The requests must be at least the sum of the containers'
// requests, and no container's limit may exceed the pod-level limit.
func (p *pod) validatePodResources(f validation.Field) {
	if len(p.spec.Overhead) > 0 {
		validateRequirements(f.Child("overhead"), &corev1.ResourceRequirements{Limits: p.spec.Overhead}, ValidateContainerResource)
	}
	r := p.spec.Resources
	if r == nil {
		return
	}
	f = f.Child("resources")
	if len(r.Claims) > 0 {
		f.Child("claims").Forbidden("claims may not be set for Resources at pod-level")
	}
	validateRequirements(f, r, podResource)
	p.validateUsedClaims(f.Child("claims"), r.Claims)
	for name, total := range TotalRequests(p.spec) {
		if request, ok := r.Requests[name]; ok && total.Cmp(request) > 0 {
			f.Child("requests").Key(string(name)).Invalid(request.String(), "must be greater than or equal to aggregate container requests of "+total.String())
		}
	}
	for name, total := range TotalLimits(p.spec) {
		if limit, ok := r.Limits[name]; ok && IsHugePages(name) && total.Cmp(limit) > 0 {
			f.Child("limits").Key(string(name)).Invalid(limit.String(), "must be greater than or equal to aggregate container limits of "+total.String())
		}
	}
	for i := range p.spec.Containers {
		for name, limit := range p.spec.Containers[i].Resources.Limits {
			if whole, ok := r.Limits[name]; ok && limit.Cmp(whole) > 0 {
				f.Child("containers").Index(i).Key(string(name)).Child("limits").Invalid(limit.String(), "must be less than or equal to pod limits of "+whole.String())
			}
		}
	}
}

// validateRequirements validates requests and limits. They must be equal for resources that cannot be
// overcommitted.
func validateRequirements(f validation.Field, r *corev1.ResourceRequirements, rule resourceRule) {
	limits, requests := f.Child("limits"), f.Child("requests")
	huge, small := false, false
	for name, limit := range r.Limits {
		validateQuantity(limits.Key(string(name)), name, limit, rule)
		huge, small = huge || IsHugePages(name), small || isBasic(name)
	}
	for name, request := range r.Requests {
		validateQuantity(requests.Key(string(name)), name, request, rule)
		huge, small = huge || IsHugePages(name), small || isBasic(name)
		limit, limited := r.Limits[name]
		switch {
		case !limited:
			if !CanOvercommit(name) {
				limits.Required("Limit must be set for non overcommitable resources")
			}
		case !CanOvercommit(name) && request.Cmp(limit) != 0:
			requests.Invalid(request.String(), "must be equal to "+string(name)+" limit of "+limit.String())
		case request.Cmp(limit) > 0:
			requests.Invalid(request.String(), "must be less than or equal to "+string(name)+" limit of "+limit.String())
		}
	}
	if huge && !small {
		f.Forbidden("HugePages require cpu or memory")
	}
}

func validateQuantity(f validation.Field, name corev1.ResourceName, quantity resource.Quantity, rule resourceRule) {
	rule(f, name)
	ValidateQuantity(f, name, quantity)
}

// ValidateQuantity validates the quantity of a resource.
func ValidateQuantity(f validation.Field, name corev1.ResourceName, quantity resource.Quantity) {
	if quantity.Sign() < 0 {
		f.Invalid(quantity.String(), "must be greater than or equal to 0")
	}
	if isCount(name) && quantity.MilliValue()%1000 != 0 {
		f.Invalid(quantity.String(), "must be an integer")
	}
}

// ValidateResourceName validates a resource name and reports whether it is valid. Names without a prefix are
// reserved for Kubernetes.
func ValidateResourceName(f validation.Field, name corev1.ResourceName) bool {
	if isBasic(name) {
		return true
	}
	before := f.ErrorCount()
	f.QualifiedName(string(name))
	if f.ErrorCount() > before {
		return false
	}
	if !strings.Contains(string(name), "/") && !IsStandardResource(name) {
		f.Invalid(string(name), "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

// ValidateContainerResource validates the name of a resource that a container requests or limits.
func ValidateContainerResource(f validation.Field, name corev1.ResourceName) {
	ValidateResourceName(f, name)
	if !strings.Contains(string(name), "/") {
		if !isBasic(name) && name != corev1.ResourceEphemeralStorage && !IsHugePages(name) {
			f.Invalid(string(name), "must be a standard resource for containers")
		}
	} else if !isNative(name) && !IsExtendedResource(name) {
		f.Invalid(string(name), "doesn't follow extended resource name standard")
	}
}

func podResource(f validation.Field, name corev1.ResourceName) {
	if ValidateResourceName(f, name) && !isBasic(name) && !IsHugePages(name) {
		validation.NotSupported(f, name, "cpu", corev1.ResourceHugePagesPrefix, "memory")
	}
}

func isBasic(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// isNative reports whether a resource is defined by Kubernetes.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtendedResource reports whether a resource is an extended resource, which is not defined by Kubernetes.
// Its name must be short enough for the prefix "requests.", which quotas add.
func IsExtendedResource(name corev1.ResourceName) bool {
	if isNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	domain, _, _ := strings.Cut(string(name), "/")
	return names.IsQualified(string(name)) && len(domain)+len(corev1.DefaultResourceRequestsPrefix) <= apivalidation.DNS1123SubdomainMaxLength
}

// CanOvercommit reports whether the total limits of a resource on a node may exceed the node's capacity.
func CanOvercommit(name corev1.ResourceName) bool { return isNative(name) && !IsHugePages(name) }

// IsStandardResource reports whether an unprefixed resource name is defined by Kubernetes. This includes
// resources that occur only in quotas.
func IsStandardResource(name corev1.ResourceName) bool {
	return IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) || isCounted(name) ||
		slices.Contains([]corev1.ResourceName{
			corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
			corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceRequestsStorage,
			corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		}, name)
}

// isCounted reports whether a resource is a number of API objects.
func isCounted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// isCount reports whether quantities of a resource must be integers.
func isCount(name corev1.ResourceName) bool { return isCounted(name) || IsExtendedResource(name) }

func (c *container) validateResizePolicies(f validation.Field) {
	seen := validation.NewDuplicates[corev1.ResourceName](len(c.ResizePolicy))
	for i := range c.ResizePolicy {
		policy := &c.ResizePolicy[i]
		if policy.ResourceName == "" {
			f.Required("")
		} else {
			validation.OneOf(f, policy.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)
		}
		if seen.IsDuplicate(policy.ResourceName) {
			f.Index(i).Duplicate(policy.ResourceName)
		}
		if policy.RestartPolicy == "" {
			f.Required("")
		} else {
			validation.OneOf(f, policy.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)
		}
		if c.pod.spec.RestartPolicy == corev1.RestartPolicyNever && policy.RestartPolicy != corev1.NotRequired {
			f.Invalid(policy.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

// validateClaims validates the resource claims of a pod.
func (p *pod) validateClaims(f validation.Field) {
	p.claims = validation.NewDuplicates[string](len(p.spec.ResourceClaims))
	for i := range p.spec.ResourceClaims {
		claim, at := &p.spec.ResourceClaims[i], f.Index(i)
		if claim.Name == "" {
			at.Child("name").Required("")
		} else {
			at.Child("name").DNSLabel(claim.Name)
			if p.claims.IsDuplicate(claim.Name) {
				at.Child("name").Duplicate(claim.Name)
			}
		}
		if claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil {
			at.Invalid(claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		} else if claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil {
			at.Invalid(claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if name := claim.ResourceClaimName; name != nil {
			at.Child("resourceClaimName").DNSSubdomain(*name)
		}
		if name := claim.ResourceClaimTemplateName; name != nil {
			at.Child("resourceClaimTemplateName").DNSSubdomain(*name)
		}
	}
}

// validateUsedClaims validates the resource claims that a container uses. Each entry refers to a claim of the
// pod, or to one request of such a claim.
func (p *pod) validateUsedClaims(f validation.Field, claims []corev1.ResourceClaim) {
	if len(claims) == 0 {
		return
	}
	seen := validation.NewDuplicates[corev1.ResourceClaim](len(claims))
	for i := range claims {
		claim, at := &claims[i], f.Index(i)
		if claim.Request != "" {
			at.Child("request").DNSLabel(claim.Request)
		}
		if claim.Name == "" {
			at.Required("")
			continue
		}
		if seen.IsDuplicate(*claim) {
			name := claim.Name
			if claim.Request != "" {
				name += "/" + claim.Request
			}
			at.Duplicate(name)
		}
		if !p.claims.Has(claim.Name) {
			fault := field.NotFound(at.Path(), claim.Name)
			fault.Detail = p.unknownClaim()
			at.Add(fault)
		}
	}
}

// maxListed is the maximum number of names that an error message lists.
const maxListed = 64

// unknownClaim returns the error message for a claim that the pod does not have. The message is created only
// once, because a long list of claims can cause many such errors.
func (p *pod) unknownClaim() string {
	if p.unknownClaimText == "" {
		p.unknownClaimText = "must be one of the names in pod.spec.resourceClaims" + p.claimNames()
	}
	return p.unknownClaimText
}

func (p *pod) claimNames() string {
	if len(p.spec.ResourceClaims) == 0 {
		return " which is empty"
	}
	var names []string
	for i := range p.spec.ResourceClaims[:min(maxListed, len(p.spec.ResourceClaims))] {
		if name := p.spec.ResourceClaims[i].Name; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return ": " + strings.Join(slices.Compact(names), ", ")
}
