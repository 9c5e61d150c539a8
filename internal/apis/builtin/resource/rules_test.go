package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// faults runs rules and returns the sorted errors. on lists feature gates to set, in the form "gate=value".
func faults[T any](t *testing.T, rules func(validation.Field, *T, *T), obj, old *T, on ...string) []string {
	t.Helper()
	gates := feature.Defaults()
	if len(on) > 0 {
		var err error
		if gates, err = gates.Parse(strings.Join(on, ",")); err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	for _, fault := range validation.NewValidator(gates).Validate(context.Background(), func(f validation.Field) { rules(f, obj, old) }) {
		texts = append(texts, fault.Error())
	}
	slices.Sort(texts)
	return texts
}

// ruleTest describes a change to a valid object and the expected errors.
type ruleTest[T any] struct {
	name   string
	change func(*T)
	want   []string
}

func runRules[T any](t *testing.T, rules func(validation.Field, *T, *T), valid func() *T, old *T, tests []ruleTest[T]) {
	t.Helper()
	for _, test := range tests {
		obj := valid()
		test.change(obj)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, faults(t, rules, obj, old)); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

func claim() *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{
			{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}},
			{Name: "any", FirstAvailable: []resourcev1.DeviceSubRequest{
				{Name: "big", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeAll},
			}},
		},
		Constraints: []resourcev1.DeviceConstraint{{Requests: []string{"one", "any/big"}, MatchAttribute: new(resourcev1.FullyQualifiedName("a.b/c"))}},
		Config:      []resourcev1.DeviceClaimConfiguration{{Requests: []string{"any"}, DeviceConfiguration: opaque(`{"a":1}`)}},
	}}}
}

func opaque(parameters string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "d.example.com", Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

func selector(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func TestValidateClaim(t *testing.T) {
	t.Parallel()
	const (
		requests    = "spec.devices.requests"
		constraints = "spec.devices.constraints[0]"
		parameters  = "spec.devices.config[0].opaque.parameters"
		omitted     = `Invalid value: "<value omitted>": `
	)
	devices := func(c *resourcev1.ResourceClaim) *resourcev1.DeviceClaim { return &c.Spec.Devices }
	runRules(t, (&selectors{}).validateClaim, claim, nil, []ruleTest[resourcev1.ResourceClaim]{
		{"nothing", func(*resourcev1.ResourceClaim) {}, nil},
		{"invalid references", func(c *resourcev1.ResourceClaim) {
			devices(c).Constraints[0].Requests = []string{"any/", "any/one", "any/big/x"}
		}, []string{
			constraints + `.requests[0]: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			constraints + `.requests[0]: Invalid value: "any/": ` + notARequest,
			constraints + `.requests[1]: Invalid value: "any/one": ` + notARequest,
			constraints + `.requests[2]: Invalid value: "any/big/x": ` + notARequest,
		}},
		{"too many names", func(c *resourcev1.ResourceClaim) {
			devices(c).Constraints[0].Requests = strings.Split(strings.Repeat("x ", 32)+"x", " ")
		}, []string{constraints + ".requests: Too many: 33: must have at most 32 items"}},
		{"a broken object", func(c *resourcev1.ResourceClaim) { devices(c).Config[0].DeviceConfiguration = opaque(`{"a":`) },
			[]string{parameters + ": " + omitted + "error parsing data as JSON: unexpected end of JSON input"}},
		{"null", func(c *resourcev1.ResourceClaim) { devices(c).Config[0].DeviceConfiguration = opaque(" null") },
			[]string{parameters + ": Required value"}},
		{"a list", func(c *resourcev1.ResourceClaim) { devices(c).Config[0].DeviceConfiguration = opaque("\n[]") },
			[]string{parameters + ": " + omitted + "must be a valid JSON object"}},
		{"large", func(c *resourcev1.ResourceClaim) {
			devices(c).Config[0].DeviceConfiguration = opaque(`{"a":"` + strings.Repeat("x", 10240) + `"}`)
		}, []string{parameters + ": Too long: may not be more than 10240 bytes"}},
		{"a count in mode All", func(c *resourcev1.ResourceClaim) { devices(c).Requests[1].FirstAvailable[0].Count = 1 },
			[]string{requests + "[1].firstAvailable[0].count: Invalid value: 1: must not be specified when allocationMode is 'All'"}},
		{"tolerations", func(c *resourcev1.ResourceClaim) {
			devices(c).Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: "Exists", Value: "x"}, {Operator: "Equal", Value: "x"}}
		}, []string{requests + "[0].exactly.tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`"}},
		{"too many alternatives", func(c *resourcev1.ResourceClaim) {
			devices(c).Requests[1].FirstAvailable = make([]resourcev1.DeviceSubRequest, 9)
			devices(c).Constraints = nil
		}, []string{requests + "[1].firstAvailable: Too many: 9: must have at most 8 items"}},
		{"no selector", func(c *resourcev1.ResourceClaim) {
			devices(c).Requests[0].Exactly.Selectors = make([]resourcev1.DeviceSelector, 1)
		},
			[]string{requests + "[0].exactly.selectors[0].cel: Required value"}},
	})
}

func TestUpdateClaim(t *testing.T) {
	t.Parallel()
	rules := &selectors{}
	bad := claim() // stored when the limit was higher
	bad.Spec.Devices.Requests[0].Exactly.Selectors = selector("nonsense")
	changed := bad.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	if got := faults(t, rules.validateClaim, changed, bad); got != nil {
		t.Errorf("a label: %q", got)
	}
	changed.Spec.Devices.Requests[0].Exactly.Count = 2
	if diff := cmp.Diff([]string{"spec: Invalid value: null: field is immutable"}, faults(t, rules.validateClaim, changed, bad)); diff != "" {
		t.Errorf("a count:\n%s", diff)
	}
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: bad.Spec}}
	if got := faults(t, rules.validateClaimTemplate, template.DeepCopy(), template); got != nil {
		t.Errorf("an unchanged template: %q", got)
	}
	template = &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim().Spec}}
	template.Spec.Name, template.Spec.Labels = "x", map[string]string{"a": "b"}
	if diff := cmp.Diff([]string{"spec.metadata.name: Forbidden: cannot be set"}, faults(t, rules.validateClaimTemplate, template, nil)); diff != "" {
		t.Errorf("a template's name:\n%s", diff)
	}
}

func TestDerivedAttributes(t *testing.T) {
	t.Parallel()
	const at = "spec.devices.requests[0].exactly.derivedAttributes"
	const unused = `Invalid value: "a.b/other": must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request`
	rules := &selectors{}
	for expression, want := range map[string][]string{
		`device.driver`:                        nil,
		`[device.driver, "x"]`:                 nil,
		`semver("1.2.3")`:                      nil,
		`device.attributes["a.b"].numa`:        nil,
		`1.5`:                                  {at + `[0].expression: Invalid value: "1.5": must evaluate to a string, an int, a bool, a semver, a list of one of them or the unknown type, not double`},
		`device.capacity["a.b"].memory`:        {at + `[0].expression: Invalid value: "device.capacity[\"a.b\"].memory": must evaluate to a string, an int, a bool, a semver, a list of one of them or the unknown type, not kubernetes.Quantity`},
		`"` + strings.Repeat("x", 10240) + `"`: {at + "[0].expression: Too long: may not be more than 10240 bytes"},
	} {
		c := claim()
		c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = []resourcev1.DeviceDerivedAttribute{{Name: "a.b/c", Expression: expression}}
		if diff := cmp.Diff(want, faults(t, rules.validateClaim, c, nil)); diff != "" {
			t.Errorf("%.30s:\n%s", expression, diff)
		}
	}
	c := claim()
	c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = []resourcev1.DeviceDerivedAttribute{
		{Name: "a.b/other", Expression: "1"}, {Name: "a.b/c", Expression: "1"}, {Name: "a.b/c", Expression: "2"},
	}
	want := []string{at + "[0].name: " + unused, at + `[2]: Duplicate value: "a.b/c"`}
	if diff := cmp.Diff(want, faults(t, rules.validateClaim, c, nil)); diff != "" {
		t.Errorf("names:\n%s", diff)
	}
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	const at = "spec.selectors[0].cel.expression: "
	rules := &selectors{}
	lists := "DRAListTypeAttributes=true"
	for _, test := range []struct{ expression, gates, want string }{
		{`device.driver == "d"`, "", ""},
		{`device.attributes["d"].flag`, "", ""},
		{`device.allowMultipleAllocations`, "", ""},
		{`device.allowMultipleAllocations`, "DRAConsumableCapacity=false", "undefined field 'allowMultipleAllocations'"},
		{`device.capacity["d"].memory.compareTo(quantity("1Gi")) >= 0`, "", ""},
		{`device.attributes["d"].version.isGreaterThan(semver("1.0.0"))`, "", ""},
		{`cel.bind(d, device.attributes["d"], d.one && d.two)`, "", ""},
		{`has(device.attributes["d"].flag) && device.attributes["d"].?flag.orValue(true)`, "", ""},
		{`device.attributes["d"].ids.exists(i, i == 1)`, "", "expression of type 'any' cannot be range of a comprehension"},
		{`device.attributes["d"].ids.exists(i, i == 1)`, lists, ""},
		{`device.attributes["d"].ids.includes(1)`, "", "undeclared reference to 'includes'"},
		{`device.attributes["d"].ids.includes(1)`, lists, ""},
		{`device.driver`, "", "must evaluate to bool or the unknown type, not string"},
		{`device.attributes.map(k, k).exists(a, device.attributes.map(k, k).exists(b, device.attributes.map(k, k).exists(c, device.attributes.map(k, k).exists(d, a == b && c == d))))`,
			"", "Forbidden: too complex, exceeds cost limit"},
	} {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourcev1.DeviceClassSpec{Selectors: selector(test.expression)}}
		got := strings.Join(faults(t, rules.validateDeviceClass, class, nil, test.gates), "; ")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) || got != "" && !strings.HasPrefix(got, at) {
			t.Errorf("%s %s: %q does not contain %q", test.expression, test.gates, got, test.want)
		}
	}
}

// TestDeviceSizes checks the maximum sizes of fields that CEL cost estimates use.
func TestDeviceSizes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]uint64{
		"":                         0,
		"driver":                   63,
		"driver x":                 unbounded,
		"allowMultipleAllocations": 1,
		"attributes":               32,
		"attributes @keys":         63,
		"attributes @values":       32,
		"attributes model":         unbounded,
		"attributes @values @keys": 32,
		"attributes @values model": 64,
		"attributes @values m @x":  unbounded,
		"capacity @items @values":  0,
		"capacity @values memory":  unbounded,
		"capacity @keys @values":   unbounded,
		"somethingElse":            unbounded,
	} {
		if got := deviceSize(strings.Fields(path)); got != want {
			t.Errorf("device %s: %d, not %d", path, got, want)
		}
	}
}

func device(name string) resourcev1.Device {
	return resourcev1.Device{
		Name:       name,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: new("x")}},
		Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}},
	}
}

func slice() *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "d.example.com", Pool: resourcev1.ResourcePool{Name: "p/q", ResourceSliceCount: 1}, NodeName: new("n"),
		Devices: []resourcev1.Device{device("a"), device("b")},
	}}
}

func TestValidateSlice(t *testing.T) {
	t.Parallel()
	const first = "spec.devices[0]"
	runRules(t, validateSlice, slice, nil, []ruleTest[resourcev1.ResourceSlice]{
		{"nothing", func(*resourcev1.ResourceSlice) {}, nil},
		{"no nodes", func(s *resourcev1.ResourceSlice) { s.Spec.NodeName = nil },
			[]string{"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"}},
		{"an empty node name and allNodes is false", func(s *resourcev1.ResourceSlice) { s.Spec.NodeName, s.Spec.AllNodes = new(""), new(false) }, []string{
			"spec.allNodes: Invalid value: false: must be either unset or set to true",
			`spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string`,
			"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
		}},
		{"nodes of devices", func(s *resourcev1.ResourceSlice) {
			s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, new(true)
			s.Spec.Devices[0].NodeName = new("n")
			s.Spec.Devices[1].NodeName, s.Spec.Devices[1].AllNodes = new("n"), new(true)
		}, []string{"spec.devices[1]: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"}},
		{"a duplicate device", func(s *resourcev1.ResourceSlice) { s.Spec.Devices[1].Name = "a" }, []string{`spec.devices[1]: Duplicate value: "a"`}},
		{"129 devices", func(s *resourcev1.ResourceSlice) { s.Spec.Devices = many(129) }, []string{"spec.devices: Too many: 129: must have at most 128 items"}},
		{"65 devices with a taint", func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices = many(65)
			s.Spec.Devices[64].Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNone}}
		}, []string{"spec.devices: Too many: 65: must have at most 64 items"}},
		{"versions", func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[0].Attributes["model"] = resourcev1.DeviceAttribute{VersionValue: new("1.02.3")}
		}, []string{first + `.attributes[model].version: Invalid value: "1.02.3": must be a string compatible with semver.org spec 2.0.0`}},
		{"names", func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[0].Attributes["a/b/c"], s.Spec.Devices[0].Attributes["/"] = s.Spec.Devices[0].Attributes["model"], s.Spec.Devices[0].Attributes["model"]
		}, []string{
			first + `.attributes: Invalid value: "": the domain must not be empty`, first + `.attributes: Invalid value: "": the name must not be empty`,
			first + `.attributes: Invalid value: "a/b/c": must not contain more than one slash`,
		}},
		{"33 attributes", func(s *resourcev1.ResourceSlice) {
			for i := range 31 {
				s.Spec.Devices[0].Attributes[resourcev1.QualifiedName(fmt.Sprint("x", i))] = resourcev1.DeviceAttribute{BoolValue: new(true)}
			}
		}, []string{first + ": Invalid value: 33: the total number of attributes and capacities must not exceed 32"}},
		{"conditions", func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[0].BindingConditions, s.Spec.Devices[0].BindingFailureConditions = []string{"a", "a"}, []string{"a"}
		}, []string{
			first + `.bindingConditions[1]: Duplicate value: "a"`,
			first + `.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`,
		}},
		{"counters", func(s *resourcev1.ResourceSlice) {
			counters := map[string]resourcev1.Counter{}
			for i := range 33 {
				counters[fmt.Sprint("c", i)] = resourcev1.Counter{}
			}
			s.Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "s", Counters: counters}}
		}, []string{first + ".consumesCounters[0].counters: Too many: 33: must have at most 32 items"}},
		{"operations", func(s *resourcev1.ResourceSlice) {
			s.Spec.SkipNodeOperations = []resourcev1.SkipNodeOperation{resourcev1.SkipNodeOperationNodePrepareResources}
		}, []string{`spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped`}},
		{"node resources", func(s *resourcev1.ResourceSlice) {
			s.Spec.Devices[0].NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
				"cpu":         {Mapping: &resourcev1.NodeAllocatableMapping{CapacityKey: new(resourcev1.QualifiedName("none")), CapacityMultiplier: new(resource.MustParse("1"))}},
				"memory":      {Overhead: &resourcev1.NodeAllocatableOverhead{PerPod: new(resource.MustParse("-1"))}},
				"example.com": {},
			}
		}, []string{
			first + `.nodeAllocatableResources[cpu].mapping.capacityKey: Not found: "none"`,
			first + `.nodeAllocatableResources[example.com]: Invalid value: "example.com": must be a node allocatable resource name`,
			first + `.nodeAllocatableResources[example.com]: Required value: at least one of mapping or overhead must be set`,
			first + `.nodeAllocatableResources[memory].overhead.perPod: Invalid value: "-1": must be non-negative`,
		}},
	})
}

func many(n int) (devices []resourcev1.Device) {
	for i := range n {
		devices = append(devices, device(fmt.Sprint("d", i)))
	}
	return devices
}

func TestUpdateSlice(t *testing.T) {
	t.Parallel()
	old := slice()
	old.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "bad key", Effect: resourcev1.DeviceTaintEffectNone}}
	old.Spec.Devices[0].Capacity["memory"] = resourcev1.DeviceCapacity{RequestPolicy: &resourcev1.CapacityRequestPolicy{}}
	old.Spec.Devices[1].AllowMultipleAllocations = new(true)
	old.Spec.Devices[1].Capacity["memory"] = resourcev1.DeviceCapacity{RequestPolicy: &resourcev1.CapacityRequestPolicy{}}
	runRules(t, validateSlice, old.DeepCopy, old, []ruleTest[resourcev1.ResourceSlice]{
		{"nothing", func(s *resourcev1.ResourceSlice) { s.Spec.Pool.Generation++ }, nil},
		{"another order", func(s *resourcev1.ResourceSlice) { slices.Reverse(s.Spec.Devices) }, nil},
		{"a taint", func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Taints[0].Value = "x" },
			[]string{"spec.devices[0].taints[0].key: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"}},
		{"a capacity", func(s *resourcev1.ResourceSlice) { s.Spec.Devices[0].Capacity["more"] = resourcev1.DeviceCapacity{} },
			[]string{"spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		{"sharing is disabled", func(s *resourcev1.ResourceSlice) { s.Spec.Devices[1].AllowMultipleAllocations = nil },
			[]string{"spec.devices[1].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		{"immutable fields", func(s *resourcev1.ResourceSlice) {
			s.Spec.Driver, s.Spec.Pool.Name, s.Spec.NodeName = "e.example.com", "r", new("m")
		}, []string{
			`spec.driver: Invalid value: "e.example.com": field is immutable`, `spec.nodeName: Invalid value: "m": field is immutable`,
			`spec.pool.name: Invalid value: "r": field is immutable`,
		}},
	})
}

func TestPartitionType(t *testing.T) {
	t.Parallel()
	s := slice()
	s.Spec.PartitionTypeAttribute = new(resourcev1.FullyQualifiedName("d.example.com/model"))
	s.Spec.Devices[1].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"d.example.com/model": {IntValue: new(int64(1))}}
	want := []string{`spec.partitionTypeAttribute: Invalid value: "d.example.com/model": may only be set on a slice which declares devices that consume counters`}
	validate := func(f validation.Field, slice, _ *resourcev1.ResourceSlice) {
		validatePartitionType(f.Child("spec"), &slice.Spec)
	}
	if diff := cmp.Diff(want, faults(t, validate, s, nil)); diff != "" {
		t.Error(diff)
	}
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "s"}}
	}
	got := faults(t, validate, s, nil)
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec.devices[1].attributes[d.example.com/model]: Invalid value: ") {
		t.Errorf("faults %q, want one for the attribute model of the second device", got)
	}
}

func TestIsSemver(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.2.3": true, "0.0.0": true, "1.2.3-alpha.1+build.01": true, "1.2.3-0a": true, "1.2.3--": true, "10000000000000000000000.0.0": true,
		"": false, "1.2": false, "1.2.3.4": false, "01.2.3": false, "1.2.3-01": false, "1.2.3-": false, "1.2.3+": false, "1.2.3-a..b": false, "v1.2.3": false,
		"1.2.3+a+b": false, "1.2.3-ä": false,
	} {
		if got := isSemver(version); got != want {
			t.Errorf("isSemver(%q) = %t, want %t", version, got, want)
		}
	}
}

func TestRequestPolicy(t *testing.T) {
	t.Parallel()
	const at = "spec.devices[0].capacity[memory].requestPolicy"
	q := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	between := func(least, most, step string) *resourcev1.CapacityRequestPolicyRange {
		r := &resourcev1.CapacityRequestPolicyRange{Min: q(least)}
		if most != "" {
			r.Max = q(most)
		}
		if step != "" {
			r.Step = q(step)
		}
		return r
	}
	fractions := "DRAFractionalCapacityRange=true"
	for name, test := range map[string]struct {
		policy resourcev1.CapacityRequestPolicy
		gates  []string
		want   []string
	}{
		"none":          {},
		"a value":       {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidValues: []resource.Quantity{*q("1Gi"), *q("2Gi")}}},
		"no default":    {policy: resourcev1.CapacityRequestPolicy{ValidValues: []resource.Quantity{*q("1Gi")}}, want: []string{at + ".default: Required value: required when validValues is defined"}},
		"unordered":     {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidValues: []resource.Quantity{*q("2Gi"), *q("1Gi")}}, want: []string{at + `.validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order`}},
		"twice":         {policy: resourcev1.CapacityRequestPolicy{Default: q("1Ki"), ValidValues: []resource.Quantity{*q("1Ki"), *q("1024")}}, want: []string{at + `.validValues[1]: Duplicate value: "1024"`}},
		"larger":        {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidValues: []resource.Quantity{*q("20Gi")}}, want: []string{at + `.validValues: Invalid value: "1Gi": default value is not valid according to the requestPolicy`, at + `.validValues[0]: Invalid value: "20Gi": option is larger than capacity value: 10Gi`}},
		"a range":       {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidRange: between("1Gi", "10Gi", "1Gi")}},
		"a wrong range": {policy: resourcev1.CapacityRequestPolicy{Default: q("2Gi"), ValidRange: between("20Gi", "1Gi", "")}, want: []string{at + `.validRange.max: Invalid value: "20Gi": min is larger than max: 1Gi`, at + `.validRange.max: Invalid value: "2Gi": default is more than max: 1Gi`, at + `.validRange.min: Invalid value: "20Gi": min is larger than capacity value: 10Gi`, at + `.validRange.min: Invalid value: "2Gi": default is less than min: 20Gi`}},
		"large steps":   {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidRange: between("1Gi", "", "10Gi")}, want: []string{at + `.validRange.step: Invalid value: "10Gi": one step 11Gi is larger than capacity value: 10Gi`}},
		"no step":       {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidRange: between("1Gi", "", "0")}, want: []string{at + `.validRange.step: Invalid value: "0": must be greater than zero`}},
		"overflow":      {policy: resourcev1.CapacityRequestPolicy{Default: q("1Gi"), ValidRange: between("1Gi", "", "18446744073709551616")}, want: []string{at + `.validRange.step: Invalid value: "18446744073709551616": one step 17179869185Gi is larger than capacity value: 10Gi`, at + `.validRange.step: Invalid value: "1Gi": value is not a multiple of a given step (18446744073709551616) from (1Gi)`}},
		"fractions":     {policy: resourcev1.CapacityRequestPolicy{Default: q("250m"), ValidRange: between("200m", "1", "100m")}},
		"fractions with the gate": {policy: resourcev1.CapacityRequestPolicy{Default: q("250m"), ValidRange: between("200m", "1", "100m")}, gates: []string{fractions},
			want: []string{at + `.validRange.step: Invalid value: "250m": value is not a multiple of a given step (100m) from (200m)`}},
		"too small fractions": {policy: resourcev1.CapacityRequestPolicy{Default: q("20u"), ValidRange: between("10u", "", "")}, gates: []string{fractions},
			want: []string{at + `.validRange.default: Invalid value: "20u": value cannot be represented as a milli value`, at + `.validRange.min: Invalid value: "10u": value cannot be represented as a milli value`}},
	} {
		if test.gates != nil && !known("DRAFractionalCapacityRange") {
			continue
		}
		s := slice()
		s.Spec.Devices[0].AllowMultipleAllocations = new(true)
		s.Spec.Devices[0].Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse("10Gi"), RequestPolicy: &test.policy}
		if diff := cmp.Diff(test.want, faults(t, validateSlice, s, nil, test.gates...)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTaintRule(t *testing.T) {
	t.Parallel()
	valid := func() *resourcev1.DeviceTaintRule {
		return &resourcev1.DeviceTaintRule{Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("d"), Pool: new("p"), Device: new("x")},
			Taint:          resourcev1.DeviceTaint{Key: "k", Effect: resourcev1.DeviceTaintEffectNoExecute},
		}}
	}
	runRules(t, validateTaintRule, valid, nil, []ruleTest[resourcev1.DeviceTaintRule]{
		{"nothing", func(*resourcev1.DeviceTaintRule) {}, nil},
		{"empty names", func(r *resourcev1.DeviceTaintRule) {
			*r.Spec.DeviceSelector = resourcev1.DeviceTaintSelector{Driver: new(""), Pool: new("")}
		}, []string{"spec.deviceSelector.driver: Required value", "spec.deviceSelector.pool: Required value"}},
		{"an effect", func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Effect = "PreferNoSchedule" },
			[]string{`spec.taint.effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "None"`}},
	})
	conditions := valid()
	for i := range 9 {
		conditions.Status.Conditions = append(conditions.Status.Conditions, metav1.Condition{
			Type: fmt.Sprint("T", i), Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	want := []string{"status.conditions: Too many: 9: must have at most 8 items"}
	if diff := cmp.Diff(want, faults(t, validateTaintRuleStatus, conditions, valid())); diff != "" {
		t.Error(diff)
	}
}

func TestValidateClaimStatus(t *testing.T) {
	t.Parallel()
	pod := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "u"}
	allocated := func() *resourcev1.ResourceClaim {
		c := claim()
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "any/big", Driver: "d", Pool: "p", Device: "x", ShareID: new(types.UID("e0b8b1c4-6d4f-4a0e-9d5a-000000000000"))},
		}}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{pod}
		return c
	}
	share := allocated().Status.Allocation.Devices.Results[0].ShareID
	runRules(t, validateClaimStatus, allocated, claim(), []ruleTest[resourcev1.ResourceClaim]{
		{"nothing", func(*resourcev1.ResourceClaim) {}, nil},
		{"a device status", func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "x", ShareID: new(string(*share)), NetworkData: &resourcev1.NetworkDeviceData{IPs: []string{"10.0.0.1/24"}}}}
		}, nil},
		{"a status without the share ID", func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "x"}}
		}, []string{`status.devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"x","ShareID":""}: must be an allocated device in the claim`}},
		{"not allocated", func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil },
			[]string{"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
		{"a new reservation during deletion", func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} },
			[]string{"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"}},
		{"an unknown request", func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Request = "none" },
			[]string{`status.allocation.devices.results[0].request: Invalid value: "none": ` + notARequest}},
	})
	old := allocated()
	old.Status.Allocation.Devices.Results[0].Device = "Bad Name" // stored before such names were rejected
	runRules(t, validateClaimStatus, old.DeepCopy, old, []ruleTest[resourcev1.ResourceClaim]{
		{"an invalid old allocation", func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }, nil},
		{"no new reservation during deletion", func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }, nil},
		{"changed", func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "y" },
			[]string{"status.allocation: Invalid value: null: field cannot be modified once set"}},
	})
}

// known reports whether a feature gate exists.
func known(gate feature.Gate) bool {
	_, err := feature.Defaults().Parse(string(gate) + "=true")
	return err == nil
}

func BenchmarkValidateSlice(b *testing.B) {
	s := slice()
	s.Spec.Devices = many(128)
	v := validation.NewValidator(feature.Defaults())
	b.ReportAllocs()
	for b.Loop() {
		v.Validate(b.Context(), func(f validation.Field) { validateSlice(f, s, nil) })
	}
}

func BenchmarkValidateClaim(b *testing.B) {
	c, rules := claim(), &selectors{}
	c.Spec.Devices.Requests[0].Exactly.Selectors = selector(`device.attributes["d"].model == "x"`)
	v := validation.NewValidator(feature.Defaults())
	b.ReportAllocs()
	for b.Loop() {
		v.Validate(b.Context(), func(f validation.Field) { rules.validateClaim(f, c, nil) })
	}
}
