package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/test/testserver"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// definitionsEach is the number of definitions in each control plane.
	definitionsEach = 50
)

// smallDefinition returns the JSON of a definition whose spec may have any fields.
func smallDefinition(group string, number int) string {
	return toJSON(definitionOf(group, fmt.Sprintf("Kind%d", number), map[string]string{"v1": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`}, "v1").Object)
}

// generatedDefinition returns the JSON of a definition that is similar to generated definitions, for example
// those of cert-manager or Prometheus. It has 100 to 300 properties with descriptions, and printer columns.
// Every third definition has CEL rules.
func generatedDefinition(group string, number int) string {
	kind := fmt.Sprintf("Kind%d", number)
	crd := definitionOf(group, kind, map[string]string{"v1": `{}`}, "v1")
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	schema["spec"] = generatedSchema(100+4*number, number%3 == 0)
	version["additionalPrinterColumns"] = []any{
		map[string]any{"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
		map[string]any{"name": "Class", "type": "string", "jsonPath": ".spec.part0.field0", "description": "The class of the object."},
		map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
	}
	return toJSON(crd.Object)
}

func toJSON(object map[string]any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// generatedSchema returns the schema of a spec with the given number of properties, grouped into objects of
// ten.
func generatedSchema(properties int, withRules bool) map[string]any {
	parts := map[string]any{}
	for p := range properties / 10 {
		fields := map[string]any{}
		for f := range 10 {
			field := []map[string]any{
				{"type": "string", "maxLength": 253}, {"type": "integer", "minimum": 0, "maximum": 65535}, {"type": "boolean"},
				{"type": "string", "enum": []any{"Always", "Never", "IfNotPresent"}, "default": "Always"},
				{"type": "array", "maxItems": 16, "items": map[string]any{"type": "string", "maxLength": 63}},
				{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			}[f%6]
			field["description"] = "A field that is described at some length, as generated definitions do, so that readers know what it is for."
			fields[fmt.Sprint("field", f)] = field
		}
		part := map[string]any{"type": "object", "properties": fields, "description": fmt.Sprintf("Part %d groups related fields.", p)}
		if withRules && p < 3 {
			part["x-kubernetes-validations"] = []any{
				map[string]any{"rule": "!has(self.field1) || !has(self.field7) || self.field1 <= self.field7", "message": "field1 must not exceed field7"},
				map[string]any{"rule": "!has(self.field0) || self.field0.startsWith('a')", "message": "field0 must begin with a"},
			}
		}
		parts[fmt.Sprint("part", p)] = part
	}
	return map[string]any{"type": "object", "properties": parts}
}

// generatedPath returns the path of the objects of a generated definition.
func generatedPath(group string, number int) string {
	return fmt.Sprintf("/apis/%s/v1/kind%ds", group, number)
}

// generatedObject returns an object of a generated definition.
func generatedObject(group string, number int) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Kind%d","metadata":{"name":"a"},"spec":{"part0":{"field0":"a","field1":1},"part1":{"field2":true}}}`, group, number)
}

// BenchmarkControlPlanesWithDefinitions measures control planes with equal definitions. The reported sizes are
// the additional heap and stack memory per control plane.
func BenchmarkControlPlanesWithDefinitions(b *testing.B) {
	for _, planes := range []int{100, 1000} {
		b.Run(fmt.Sprint(planes), func(b *testing.B) { benchmarkDefinitionsIn(b, planes) })
	}
}

func benchmarkDefinitionsIn(b *testing.B, planes int) {
	config := Config{}
	config.ControlPlanes.Idle = time.Hour
	s := start(b, config)
	before, _ := memoryUse()
	report := func(name string) {
		b.Helper()
		now, _ := memoryUse()
		b.ReportMetric(float64(int64(now)-int64(before))/float64(planes), name)
	}
	each := func(run func(plane int, path string)) {
		var group errgroup.Group
		group.SetLimit(4)
		for i := range planes {
			group.Go(func() error {
				run(i, fmt.Sprint("/clusters/p", i))
				return nil
			})
		}
		_ = group.Wait()
	}
	each(func(i int, _ string) { s.declare(b, fmt.Sprint("p", i), `{}`) })
	each(func(i int, _ string) { s.awaitPhase(b, fmt.Sprint("p", i), "Ready") })
	each(func(i int, _ string) { s.awaitControllers(b, i) })
	report("open-bytes")

	definitions := make([]string, definitionsEach)
	for n := range definitions {
		definitions[n] = generatedDefinition(groupOf(n), n)
	}
	each(func(_ int, path string) {
		for _, definition := range definitions {
			s.must(b, "POST", path+definitionsPath, definition)
		}
	})
	last := definitionsEach - 1
	each(func(_ int, path string) { awaitServed(b, s, path+generatedPath(groupOf(last), last)) })
	report("defined-bytes")
	each(func(_ int, path string) {
		for n := range definitionsEach {
			s.must(b, "GET", path+generatedPath(groupOf(n), n), "")
		}
	})
	report("listed-bytes")
	each(func(_ int, path string) {
		for n := range definitionsEach {
			s.must(b, "POST", path+generatedPath(groupOf(n), n), generatedObject(groupOf(n), n))
		}
	})
	report("used-bytes")
	b.ReportMetric(float64(s.firstObject(b, "/clusters/p0", generatedDefinition).Microseconds()), "first-object-µs")
	b.ReportMetric(float64(s.firstObject(b, "/clusters/p1", generatedDefinition).Microseconds()), "first-object-shared-µs")
	testserver.Eventually(b, 2*time.Minute, func() error {
		s.host.fleet.CloseIdle(0)
		for i := range planes {
			if s.host.fleet.IsOpen(fmt.Sprint("p", i)) {
				return fmt.Errorf("control plane %d is open", i)
			}
		}
		return nil
	})
	report("closed-bytes")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFirstObject measures the time from the creation of a definition to the response to the creation of
// its first object. It uses small definitions, and the definitions of BenchmarkControlPlanesWithDefinitions.
func BenchmarkFirstObject(b *testing.B) {
	for name, definition := range map[string]func(group string, number int) string{"small": smallDefinition, "large": generatedDefinition} {
		b.Run(name, func(b *testing.B) {
			s := start(b, Config{})
			b.ReportMetric(float64(s.firstObject(b, "", definition).Microseconds()), "first-object-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// firstObject returns the median time from the creation of a definition to the response to the creation of its
// first object. The creation of the object waits until the definition is established.
func (r *running) firstObject(b *testing.B, path string, definition func(group string, number int) string) time.Duration {
	b.Helper()
	const group = "new.example.com"
	var times []time.Duration
	for n := range definitionsEach {
		definition, object := definition(group, n), generatedObject(group, n)
		began := time.Now()
		r.must(b, "POST", path+definitionsPath, definition)
		r.must(b, "POST", path+generatedPath(group, n), object)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
