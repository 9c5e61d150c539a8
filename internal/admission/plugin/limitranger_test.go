package plugin_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/rest"
)

// amounts parses a list of resources such as "cpu=1 memory=1Gi".
func amounts(text string) corev1.ResourceList {
	if text == "" {
		return nil
	}
	list := corev1.ResourceList{}
	for item := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(item, "=")
		list[corev1.ResourceName(name)] = quantity.MustParse(value)
	}
	return list
}

func limitRange(items ...corev1.LimitRangeItem) stored[*corev1.LimitRange] {
	return stored[*corev1.LimitRange]{
		{ObjectMeta: metav1.ObjectMeta{Name: "lr", Namespace: "a"}, Spec: corev1.LimitRangeSpec{Limits: items}},
		{ObjectMeta: metav1.ObjectMeta{Name: "lr", Namespace: "elsewhere"}, Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: "Container", Max: amounts("cpu=1m"), Default: amounts("cpu=1m")}}}},
	}
}

func container(name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
}

// TestLimitRangerDefaults checks that missing values are set and are listed in the annotation.
func TestLimitRangerDefaults(t *testing.T) {
	t.Parallel()
	p := plugin.LimitRanger{LimitRanges: limitRange(
		corev1.LimitRangeItem{Type: "Container", Default: amounts("cpu=500m memory=512Mi"), DefaultRequest: amounts("cpu=100m memory=512Mi")},
		corev1.LimitRangeItem{Type: "Pod", Default: amounts("cpu=7")})}
	pod := podNamed("x", func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{container("a", "", ""), container("b", "cpu=1 memory=1", "memory=1Gi cpu=1"), container("c", "cpu=200m", "memory=1Gi")}
		s.InitContainers = []corev1.Container{container("i", "", "cpu=1")}
	})
	mutated(t, p, creating(pods(), pod), "")
	const want = "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; " +
		"memory request for container c; cpu limit for container c; cpu, memory request for init container i; memory limit for init container i"
	if got := pod.Annotations["kubernetes.io/limit-ranger"]; got != want {
		t.Errorf("annotation %s\nwant       %s", got, want)
	}
	if cpu := pod.Spec.Containers[2].Resources.Limits.Cpu().String(); cpu != "500m" {
		t.Errorf("limit of cpu %s", cpu)
	}
	if cpu := pod.Spec.InitContainers[0].Resources.Limits.Cpu().String(); cpu != "1" {
		t.Errorf("limit of cpu %s", cpu)
	}
	mutated(t, p, creating(resource("apps", "deployments", ""), podNamed("x")), "")
	same := podNamed("x")
	mutated(t, p, updating(pods(), same, podNamed("x")), "")
	if len(same.Annotations) > 0 {
		t.Error("an update of an existing pod set defaults")
	}
	mutated(t, plugin.LimitRanger{LimitRanges: broken[*corev1.LimitRange]{}}, creating(pods(), podNamed("x")),
		`pods "x" is forbidden: unable to CREATE /v1, Resource=pods at this time because there was an error enforcing limit ranges`)
}

func TestLimitRangerBounds(t *testing.T) {
	t.Parallel()
	items := []corev1.LimitRangeItem{
		{Type: "Container", Min: amounts("cpu=50m"), Max: amounts("cpu=1 memory=1Gi"), MaxLimitRequestRatio: amounts("cpu=10")},
		{Type: "Pod", Max: amounts("cpu=2")},
	}
	const fine = "cpu=500m memory=1Mi"
	for name, test := range map[string]struct {
		containers []corev1.Container
		refusal    string
	}{
		"within": {[]corev1.Container{container("c", fine, fine)}, ""},
		"above the max": {[]corev1.Container{container("c", "cpu=1", "cpu=2 memory=1Mi")},
			"maximum cpu usage per Container is 1, but limit is 2"},
		"below the min": {[]corev1.Container{container("c", "cpu=1m", fine)},
			"[minimum cpu usage per Container is 50m, but request is 1m, cpu max limit to request ratio per Container is 10, but provided ratio is 500.000000]"},
		"at the ratio":    {[]corev1.Container{container("c", "cpu=0.1", "cpu=1 memory=1")}, ""},
		"above the ratio": {[]corev1.Container{container("c", "cpu=50m", "cpu=1 memory=1")}, "cpu max limit to request ratio per Container is 10, but provided ratio is 20.000000"},
		"all of the pod": {[]corev1.Container{container("a", "cpu=1", "cpu=1 memory=1"), container("b", "cpu=1", "cpu=1 memory=1"), container("c", "cpu=1", "cpu=1 memory=1")},
			"maximum cpu usage per Pod is 2, but limit is 3"},
		"several": {[]corev1.Container{container("c", "cpu=1m memory=2Gi", "cpu=3 memory=2Gi")},
			"[minimum cpu usage per Container is 50m, but request is 1m, maximum cpu usage per Container is 1, but limit is 3, maximum memory usage per Container is 1Gi, but limit is 2Gi, " +
				"cpu max limit to request ratio per Container is 10, but provided ratio is 3000.000000, maximum cpu usage per Pod is 2, but limit is 3]"},
		"nothing said": {[]corev1.Container{container("c", "", "")},
			"[minimum cpu usage per Container is 50m.  No request is specified, maximum cpu usage per Container is 1.  No limit is specified, maximum memory usage per Container is 1Gi.  No limit is specified, " +
				"cpu max limit to request ratio per Container is 10, but no request is specified or request is 0, maximum cpu usage per Pod is 2.  No limit is specified]"},
		"a limit below the min":   {[]corev1.Container{container("c", fine, "cpu=40m memory=1")}, "minimum cpu usage per Container is 50m, but limit is 40m"},
		"a request above the max": {[]corev1.Container{container("c", "cpu=500m memory=2Gi", fine)}, "maximum memory usage per Container is 1Gi, but request is 2Gi"},
		"no limit for the ratio": {[]corev1.Container{container("c", fine, "memory=1")},
			"[maximum cpu usage per Container is 1.  No limit is specified, cpu max limit to request ratio per Container is 10, but no limit is specified or limit is 0, maximum cpu usage per Pod is 2.  No limit is specified]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.refusal != "" {
				test.refusal = `pods "x" is forbidden: ` + test.refusal
			}
			p := plugin.LimitRanger{LimitRanges: limitRange(items...)}
			pod := podNamed("x", func(s *corev1.PodSpec) { s.Containers = test.containers })
			validated(t, p, creating(pods(), pod), test.refusal)
			validated(t, p, updating(resource("", "pods", "resize"), pod, podNamed("x")), test.refusal)
			validated(t, p, updating(pods(), pod, podNamed("x")), "")
			going := podNamed("x")
			going.DeletionTimestamp = &metav1.Time{}
			validated(t, p, updating(resource("", "pods", "resize"), pod, going), "")
		})
	}
}

// TestLimitRangerOfWholePods checks that a limit range applies to pod-level resources.
func TestLimitRangerOfWholePods(t *testing.T) {
	t.Parallel()
	p := plugin.LimitRanger{LimitRanges: limitRange(corev1.LimitRangeItem{Type: "Pod", Max: amounts("cpu=2")})}
	pod := podNamed("x", func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{container("c", "", "cpu=1")}
		s.Resources = &corev1.ResourceRequirements{Limits: amounts("cpu=3")}
	})
	validated(t, p, creating(pods(), pod), `pods "x" is forbidden: maximum cpu usage per Pod is 2, but limit is 3`)
}

func TestLimitRangerOfClaims(t *testing.T) {
	t.Parallel()
	p := plugin.LimitRanger{LimitRanges: limitRange(corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Min: amounts("storage=1Gi"), Max: amounts("storage=5Gi")})}
	claims := resource("", "persistentvolumeclaims", "")
	const refused = `persistentvolumeclaims "x" is forbidden: `
	for asked, refusal := range map[string]string{
		"storage=1Gi": "", "storage=5Gi": "",
		"storage=6Gi": refused + "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi",
		"storage=1Mi": refused + "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
		"":            refused + "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]",
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		claim.Spec.Resources.Requests = amounts(asked)
		validated(t, p, creating(claims, claim), refusal)
		validated(t, p, updating(claims, claim, &corev1.PersistentVolumeClaim{}), refusal)
	}
}

// TestLimitRangerOfLongLists checks a pod with many containers against a limit range with many resources. The
// time must not depend on the number of all pairs.
func TestLimitRangerOfLongLists(t *testing.T) {
	t.Parallel()
	const n = 20_000
	list := corev1.ResourceList{}
	pod := podNamed("x", func(s *corev1.PodSpec) {
		for i := range n {
			list[corev1.ResourceName(fmt.Sprint("example.com/", n+i))] = quantity.MustParse("1")
			s.Containers = append(s.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
		}
	})
	p := plugin.LimitRanger{LimitRanges: limitRange(corev1.LimitRangeItem{Type: "Container", DefaultRequest: list, Min: list})}
	if err := p.Validate(t.Context(), creating(pods(), pod)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "minimum example.com/20000 usage per Container is 1.  No request is specified") {
		t.Errorf("error %.200v", err)
	}
	if err := p.Mutate(t.Context(), creating(pods(), pod)); !apierrors.IsInvalid(err) || err.Error() != `Pod "x" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes` {
		t.Errorf("error %.200v", err)
	}
}

// countingRanges counts its List calls.
type countingRanges struct {
	plugin.Lister[*corev1.LimitRange]
	times int
}

func (c *countingRanges) List(ctx context.Context, namespace string, options rest.ListOptions) iter.Seq2[*corev1.LimitRange, error] {
	c.times++
	return c.Lister.List(ctx, namespace, options)
}

// TestLimitRangerListsOnce checks that the validating pass of a request reuses the list of the
// mutating pass.
func TestLimitRangerListsOnce(t *testing.T) {
	t.Parallel()
	ranges := &countingRanges{Lister: limitRange(corev1.LimitRangeItem{Type: "Container", Max: amounts("cpu=1"), Default: amounts("cpu=500m")})}
	p := plugin.LimitRanger{LimitRanges: ranges}
	a := creating(pods(), podNamed("x", func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits = amounts("cpu=2") }))
	a.Lookups = new(admission.Lookups)
	mutated(t, p, a, "")
	validated(t, p, a, `pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2`)
	if ranges.times != 1 {
		t.Errorf("listed %d times", ranges.times)
	}
}
