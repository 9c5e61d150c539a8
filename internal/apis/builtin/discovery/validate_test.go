package discovery

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

type (
	sliceCase  = validationtest.Case[discoveryv1.EndpointSlice]
	sliceRules = validationtest.Rules[discoveryv1.EndpointSlice]
)

func newSlice(kind discoveryv1.AddressType, addresses ...string) func() *discoveryv1.EndpointSlice {
	return func() *discoveryv1.EndpointSlice {
		slice := &discoveryv1.EndpointSlice{AddressType: kind, Ports: []discoveryv1.EndpointPort{{}, {Name: new("web")}}}
		for _, address := range addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
		}
		defaultSlice(slice)
		return slice
	}
}

func setAddress(address string) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = address }
}

func TestSlices(t *testing.T) {
	t.Parallel()
	const first = "endpoints[0].addresses[0]: Invalid value: "
	sliceRules(validateSlice).Create(t, newSlice(discoveryv1.AddressTypeIPv4, "10.0.0.1"), []sliceCase{
		{Name: "leading zeros", Change: setAddress("010.0.0.1"), Want: []string{first + `"010.0.0.1": must not have leading 0s`}},
		{Name: "IPv4-mapped", Change: setAddress("::ffff:10.0.0.1"), Want: []string{first + `"::ffff:10.0.0.1": must not be an IPv4-mapped IPv6 address`}},
		{Name: "wrong family", Change: setAddress("fd00::1"), Want: []string{`endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address`}},
		{Name: "link-local", Change: setAddress("169.254.0.1"), Want: []string{"may not be in the link-local range"}},
		{Name: "too many endpoints", Change: func(s *discoveryv1.EndpointSlice) { s.Endpoints = make([]discoveryv1.Endpoint, 1001) },
			Want: []string{"endpoints: Too many: 1001: must have at most 1000 items"}},
		{Name: "too many hints", Change: func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: make([]discoveryv1.ForZone, 9), ForNodes: make([]discoveryv1.ForNode, 9)}
		}, Want: []string{"endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"}},
		{Name: "no protocol", Change: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil }, Want: []string{"ports[0].protocol: Required value"}},
		{Name: "any port", Change: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(-1)) }},
	})
	sliceRules(validateSlice).Create(t, newSlice(discoveryv1.AddressTypeFQDN, "a.example"), []sliceCase{
		{Name: "one label", Change: setAddress("a"), Want: []string{first + `"a": should be a domain with at least two segments separated by dots`}},
	})
}

func TestSliceUpdates(t *testing.T) {
	t.Parallel()
	sliceRules(validateSlice).Update(t, newSlice(discoveryv1.AddressTypeIPv4, "010.0.0.1", "::ffff:10.0.0.2"), []sliceCase{
		{Name: "old address in another endpoint", Change: setAddress("::ffff:10.0.0.2")},
		{Name: "new invalid address", Change: setAddress("010.0.0.3"), Want: []string{"must not have leading 0s"}},
		{Name: "another type", Change: func(s *discoveryv1.EndpointSlice) { s.AddressType, s.Endpoints = discoveryv1.AddressTypeIPv6, nil },
			Want: []string{"addressType: Invalid value: \"IPv6\": field is immutable"}},
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	slice := newSlice(discoveryv1.AddressTypeIPv4, "10.0.0.1", "010.0.0.1")()
	want := []string{`endpoints[1].addresses[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`}
	if diff := cmp.Diff(want, warnings(nil, slice, slice)); diff != "" {
		t.Error(diff)
	}
	slice.Labels = map[string]string{discoveryv1.LabelManagedBy: sliceController}
	if got := warnings(nil, slice, nil); got != nil {
		t.Errorf("warnings for a slice of a controller: %v", got)
	}
	fqdn := newSlice(discoveryv1.AddressTypeFQDN, "a.example")()
	if got := warnings(nil, fqdn, nil); len(got) != 1 {
		t.Errorf("warnings for a new FQDN slice: %v", got)
	}
	if got := warnings(nil, fqdn, fqdn); got != nil {
		t.Errorf("warnings for an updated FQDN slice: %v", got)
	}
}

// TestGeneration checks that writing a topology increments the generation, although the topology is
// dropped.
func TestGeneration(t *testing.T) {
	t.Parallel()
	old := newSlice(discoveryv1.AddressTypeIPv4, "10.0.0.1")()
	old.Generation = 1
	slice := old.DeepCopy()
	slice.Endpoints[0].DeprecatedTopology = map[string]string{corev1.LabelHostname: "n"}
	prepareUpdate(nil, slice, old)
	if slice.Generation != 2 || slice.Endpoints[0].DeprecatedTopology != nil {
		t.Errorf("generation %d, topology %v", slice.Generation, slice.Endpoints[0].DeprecatedTopology)
	}
}

// TestValidObjectsDoNotAllocate checks that validation of a valid slice does not allocate, because slices are
// large and often written.
func TestValidObjectsDoNotAllocate(t *testing.T) {
	var addresses []string
	for i := range 100 {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d", i+1))
	}
	slice, validator := newSlice(discoveryv1.AddressTypeIPv4, addresses...)(), validation.NewValidator(feature.Defaults())
	alloctest.None(t, "EndpointSlice", func() {
		if errs := validator.Validate(t.Context(), func(f validation.Field) { validateSlice(f, slice, slice) }); len(errs) > 0 {
			t.Fatal(errs)
		}
	})
}
