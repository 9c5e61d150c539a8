package resource

import (
	"encoding/json"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// validateClaim validates a claim. It validates the spec only on creation, because a +k8s:immutable marker
// rejects later changes.
func (s *selectors) validateClaim(f validation.Field, claim, old *resourcev1.ResourceClaim) {
	if old == nil {
		s.validateDeviceClaim(f.Child("spec").Child("devices"), &claim.Spec.Devices)
	}
	validation.ValidateDeclared(f, declared.Validate_ResourceClaim, claim, old, "")
}

// validateClaimTemplate validates a template. Unlike the spec of a claim, a changed spec is validated, although
// it is immutable.
func (s *selectors) validateClaimTemplate(f validation.Field, template, old *resourcev1.ResourceClaimTemplate) {
	spec := f.Child("spec")
	if old == nil || validation.Changed(template.Spec, old.Spec) {
		podspec.ValidateClaimMetadata(spec.Child("metadata"), &template.Spec.ObjectMeta)
		s.validateDeviceClaim(spec.Child("spec").Child("devices"), &template.Spec.Spec.Devices)
	}
	if old != nil {
		validation.Immutable(spec, template.Spec, old.Spec)
	}
	validation.ValidateDeclared(f, declared.Validate_ResourceClaimTemplate, template, old, "")
}

// validateDeviceClaim validates the requests of a claim. It skips lists that are too long, because +k8s markers
// reject them.
func (s *selectors) validateDeviceClaim(f validation.Field, claim *resourcev1.DeviceClaim) {
	if len(claim.Requests) <= resourcev1.DeviceRequestsMaxSize {
		derived := derivedAttributes{selectors: s, constraints: claim.Constraints}
		for i := range claim.Requests {
			s.validateRequest(f.Child("requests").Index(i), &claim.Requests[i], &derived)
		}
		if derived.cost > resourcev1.DeviceClaimDerivedAttributeCELMaxCost {
			f.Forbidden("too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit")
		}
	}
	if len(claim.Constraints) == 0 && len(claim.Config) == 0 {
		return
	}
	names := namesOf(claim.Requests)
	if len(claim.Constraints) <= resourcev1.DeviceConstraintsMaxSize {
		for i := range claim.Constraints {
			validateConstraint(f.Child("constraints").Index(i), &claim.Constraints[i], &names)
		}
	}
	if len(claim.Config) <= resourcev1.DeviceConfigMaxSize {
		for i := range claim.Config {
			config, at := &claim.Config[i], f.Child("config").Index(i)
			names.validateRefs(at.Child("requests"), config.Requests)
			validateConfiguration(at, &config.DeviceConfiguration)
		}
	}
}

func (s *selectors) validateRequest(f validation.Field, request *resourcev1.DeviceRequest, derived *derivedAttributes) {
	f.Child("name").DNSLabel(request.Name)
	alternatives := len(request.FirstAvailable) > 0
	switch exactly := request.Exactly; {
	case exactly == nil && !alternatives:
		f.Required("exactly one of `exactly` or `firstAvailable` is required")
	case exactly != nil && alternatives:
		f.Invalid(nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set")
	case exactly != nil:
		at := f.Child("exactly")
		if exactly.DeviceClassName == "" {
			at.Child("deviceClassName").Required("")
		} else {
			at.Child("deviceClassName").DNSSubdomain(exactly.DeviceClassName)
		}
		s.validateSelectors(at.Child("selectors"), exactly.Selectors)
		derived.validate(at.Child("derivedAttributes"), exactly.DerivedAttributes, requestRef{request.Name, ""})
		validateCount(at.Child("count"), exactly.AllocationMode, exactly.Count)
		validateTolerations(at.Child("tolerations"), exactly.Tolerations)
	case len(request.FirstAvailable) <= resourcev1.FirstAvailableDeviceRequestMaxSize:
		for i := range request.FirstAvailable {
			s.validateSubRequest(f.Child("firstAvailable").Index(i), &request.FirstAvailable[i], request.Name, derived)
		}
	}
}

func (s *selectors) validateSubRequest(f validation.Field, sub *resourcev1.DeviceSubRequest, of string, derived *derivedAttributes) {
	f.Child("name").DNSLabel(sub.Name)
	s.validateSelectors(f.Child("selectors"), sub.Selectors)
	derived.validate(f.Child("derivedAttributes"), sub.DerivedAttributes, requestRef{of, sub.Name})
	validateCount(f.Child("count"), sub.AllocationMode, sub.Count)
	validateTolerations(f.Child("tolerations"), sub.Tolerations)
}

// validateCount requires a count in ExactCount mode and rejects a count in All mode.
func validateCount(f validation.Field, mode resourcev1.DeviceAllocationMode, count int64) {
	switch {
	case mode == resourcev1.DeviceAllocationModeAll && count != 0:
		f.Invalid(count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode))
	case mode == resourcev1.DeviceAllocationModeExactCount && count <= 0:
		f.Invalid(count, "must be greater than zero")
	}
}

// derivedAttributes validates the derived attributes of a claim. cost is the sum over all requests, because
// they share a cost limit.
type derivedAttributes struct {
	selectors   *selectors
	constraints []resourcev1.DeviceConstraint
	cost        uint64
}

func (d *derivedAttributes) validate(f validation.Field, attributes []resourcev1.DeviceDerivedAttribute, of requestRef) {
	if len(attributes) > resourcev1.DeviceDerivedAttributesMaxSize {
		return // a +k8s marker rejects the list
	}
	names := validation.NewDuplicates[resourcev1.FullyQualifiedName](len(attributes))
	for i := range attributes {
		a, at := &attributes[i], f.Index(i)
		if a.Name != "" && !d.constrained(a.Name, of) {
			at.Child("name").Invalid(a.Name, "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request")
		}
		if a.Expression != "" {
			cost, ok := d.selectors.compile(at.Child("expression"), a.Expression, checkAttribute)
			if ok && cost > resourcev1.DeviceClaimDerivedAttributeCELMaxCost {
				at.Child("expression").Forbidden(tooComplex)
			}
			d.cost += cost
		}
		if names.IsDuplicate(a.Name) {
			at.Duplicate(a.Name)
		}
	}
}

// constrained reports whether any constraint on an attribute applies to a request. A constraint applies if it
// lists no requests, this request, or this alternative of the request.
func (d *derivedAttributes) constrained(name resourcev1.FullyQualifiedName, of requestRef) bool {
	return slices.ContainsFunc(d.constraints, func(c resourcev1.DeviceConstraint) bool {
		attribute := c.MatchAttribute
		if attribute == nil {
			attribute = c.DistinctAttribute
		}
		if attribute == nil || *attribute != name {
			return false
		}
		return len(c.Requests) == 0 || slices.Contains(c.Requests, of.request) ||
			of.alternative != "" && slices.Contains(c.Requests, of.request+"/"+of.alternative)
	})
}

func validateConstraint(f validation.Field, constraint *resourcev1.DeviceConstraint, names *requestNames) {
	names.validateRefs(f.Child("requests"), constraint.Requests)
	switch {
	case constraint.MatchAttribute != nil, constraint.DistinctAttribute != nil:
	case f.Enabled(feature.DRAConsumableCapacity): // the message is for another error, as in kube-apiserver
		f.Required(`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)
	default:
		f.Child("matchAttribute").Required("")
	}
}

// validateConfiguration requires an opaque configuration, which a driver interprets. It is the only type of
// configuration.
func validateConfiguration(f validation.Field, config *resourcev1.DeviceConfiguration) {
	f = f.Child("opaque")
	if config.Opaque == nil {
		f.Required("")
		return
	}
	validateObject(f.Child("parameters"), config.Opaque.Parameters.Raw, resourcev1.OpaqueParametersMaxLength)
}

// validateObject requires a JSON object of at most longest bytes. Errors do not contain the object, because it
// may be large and secret.
func validateObject(f validation.Field, raw []byte, longest int) {
	const omitted = "<value omitted>"
	switch {
	case len(raw) == 0:
		f.Required("")
	case len(raw) > longest:
		f.TooLong(longest)
	case !json.Valid(raw):
		var value any
		f.Invalid(omitted, fmt.Sprintf("error parsing data as JSON: %v", json.Unmarshal(raw, &value)))
	default:
		switch firstByte(raw) {
		case '{':
		case 'n': // null
			f.Required("")
		default:
			f.Invalid(omitted, "must be a valid JSON object")
		}
	}
}

// firstByte returns the first byte of a JSON value that is not white space.
func firstByte(raw []byte) byte {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func validateTolerations(f validation.Field, tolerations []resourcev1.DeviceToleration) {
	for i := range tolerations {
		toleration, at := &tolerations[i], f.Index(i).Child("value")
		switch toleration.Operator {
		case resourcev1.DeviceTolerationOpExists:
			if toleration.Value != "" {
				at.Invalid(toleration.Value, "must be empty for operator `Exists`")
			}
		case resourcev1.DeviceTolerationOpEqual:
			at.LabelValue(toleration.Value)
		}
	}
}
