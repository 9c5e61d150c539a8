package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
)

// shown formats a list of quantities, sorted by name.
func shown(list corev1.ResourceList) string {
	return formatQuantities(slices.Sorted(maps.Keys(list)), list)
}

// parse decodes the spec and status of an object.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestUsage(t *testing.T) {
	t.Parallel()
	past := metav1.NewTime(time.Now().Add(-time.Hour)).UTC().Format(time.RFC3339)
	pod := func(text string) codec.Object { return parse[corev1.Pod](t, text) }
	service := func(text string) codec.Object { return parse[corev1.Service](t, text) }
	claim := func(text string) codec.Object { return parse[corev1.PersistentVolumeClaim](t, text) }
	devices := func(text string) codec.Object { return parse[resourcev1.ResourceClaim](t, text) }
	for _, tt := range []struct {
		name     string
		resource schema.GroupResource
		obj      codec.Object
		want     string
	}{
		{"pod without requests", pods, pod(`{spec: {containers: [{name: c}]}}`), "count/pods=1,pods=1"},
		{"sum of containers", pods, pod(`{spec: {containers: [
			{name: a, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1"}}},
			{name: b, resources: {requests: {cpu: 200m, ephemeral-storage: 1Gi}, limits: {cpu: "1", memory: 2Gi, ephemeral-storage: 2Gi}}}]}}`),
			"count/pods=1,cpu=300m,ephemeral-storage=1Gi,limits.cpu=2,limits.ephemeral-storage=2Gi,limits.memory=2Gi,memory=1Gi,pods=1," +
				"requests.cpu=300m,requests.ephemeral-storage=1Gi,requests.memory=1Gi"},
		{"larger init container", pods, pod(`{spec: {initContainers: [{name: i, resources: {requests: {cpu: "2"}}}],
			containers: [{name: a, resources: {requests: {cpu: "1"}}}]}}`), "count/pods=1,cpu=2,pods=1,requests.cpu=2"},
		{"sidecar", pods, pod(`{spec: {initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: "2"}}}],
			containers: [{name: a, resources: {requests: {cpu: "1"}}}]}}`), "count/pods=1,cpu=3,pods=1,requests.cpu=3"},
		{"overhead", pods, pod(`{spec: {overhead: {cpu: 50m, memory: 10Mi}, containers: [{name: a, resources: {requests: {cpu: "1"}, limits: {memory: 1Mi}}}]}}`),
			"count/pods=1,cpu=1050m,limits.memory=11Mi,memory=10Mi,pods=1,requests.cpu=1050m,requests.memory=10Mi"},
		{"pod-level resources", pods, pod(`{spec: {resources: {requests: {cpu: "4"}, limits: {memory: 8Gi}}, containers: [{name: a, resources: {requests: {cpu: "1"}}}]}}`),
			"count/pods=1,cpu=4,limits.memory=8Gi,pods=1,requests.cpu=4"},
		{"extended resources", pods, pod(`{spec: {containers: [{name: a, resources: {
			requests: {example.com/gpu: "2", hugepages-2Mi: 4Mi, deviceclass.resource.kubernetes.io/x: "1"}, limits: {example.com/gpu: "2"}}}]}}`),
			"count/pods=1,hugepages-2Mi=4Mi,pods=1,requests.deviceclass.resource.kubernetes.io/x=1,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"},
		{"resize in progress", pods, pod(`{spec: {containers: [{name: a, resources: {requests: {cpu: "1"}}}]},
			status: {containerStatuses: [{name: a, allocatedResources: {cpu: "3"}, resources: {requests: {cpu: "2"}, limits: {cpu: "5"}}}]}}`),
			"count/pods=1,cpu=3,limits.cpu=5,pods=1,requests.cpu=3"},
		{"infeasible resize", pods, pod(`{spec: {containers: [{name: a, resources: {requests: {cpu: "9"}}}]},
			status: {conditions: [{type: PodResizePending, reason: Infeasible, status: "True"}], containerStatuses: [{name: a, allocatedResources: {cpu: "3"}}]}}`),
			"count/pods=1,cpu=3,pods=1,requests.cpu=3"},
		{"succeeded pod", pods, pod(`{spec: {containers: [{name: a, resources: {requests: {cpu: "1"}}}]}, status: {phase: Succeeded}}`), "count/pods=1"},
		{"failed pod", pods, pod(`{spec: {containers: [{name: a}]}, status: {phase: Failed}}`), "count/pods=1"},
		{"pod marked for deletion", pods, pod(`{metadata: {deletionTimestamp: "` + past + `", deletionGracePeriodSeconds: 7200}, spec: {containers: [{name: a}]}}`), "count/pods=1,pods=1"},
		{"overdue pod", pods, pod(`{metadata: {deletionTimestamp: "` + past + `", deletionGracePeriodSeconds: 30}, spec: {containers: [{name: a}]}}`), "count/pods=1"},

		{"service", services, service(`{spec: {type: ClusterIP, ports: [{port: 1}]}}`), "count/services=1,services=1,services.loadbalancers=0,services.nodeports=0"},
		{"NodePort service", services, service(`{spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}}`), "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"},
		{"LoadBalancer service", services, service(`{spec: {type: LoadBalancer, ports: [{port: 1}, {port: 2}]}}`), "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"},
		{"LoadBalancer service without allocated node ports", services, service(`{spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 30001}]}}`),
			"count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},

		{"claim", claims, claim(`{spec: {resources: {requests: {storage: 1Gi}}}}`), "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=1Gi"},
		{"claim with a storage class", claims, claim(`{spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}}`),
			"count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=1Gi," +
				"persistentvolumeclaims=1,requests.storage=1Gi"},
		{"claim with the annotation of a storage class", claims, claim(`{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: old}}, spec: {storageClassName: gold}}`),
			"count/persistentvolumeclaims=1,old.storageclass.storage.k8s.io/persistentvolumeclaims=1,persistentvolumeclaims=1"},
		{"shrinking claim", claims, claim(`{spec: {resources: {requests: {storage: 1Gi}}}, status: {allocatedResources: {storage: 3Gi}}}`),
			"count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=3Gi"},
		{"claim for a fraction of a byte", claims, claim(`{spec: {resources: {requests: {storage: 1500m}}}}`), "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2"},

		{"devices", resourceClaims, devices(`{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}},
			{name: b, exactly: {deviceClassName: gpu, allocationMode: All}}]}}}`), "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=34"},
		{"alternative device requests", resourceClaims, devices(`{spec: {devices: {requests: [{name: a, firstAvailable: [
			{name: x, deviceClassName: gpu, allocationMode: ExactCount, count: 2}, {name: y, deviceClassName: gpu, allocationMode: ExactCount, count: 3},
			{name: z, deviceClassName: nic, allocationMode: ExactCount, count: 1}]}]}}}`),
			"count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=3,nic.deviceclass.resource.k8s.io/devices=1"},

		{"resource with an alias", schema.GroupResource{Resource: "secrets"}, &corev1.Secret{}, "count/secrets=1,secrets=1"},
		{"any resource", schema.GroupResource{Group: "example.com", Resource: "widgets"}, &metav1.PartialObjectMetadata{}, "count/widgets.example.com=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, ok := evaluatorOf(tt.resource)
			if !ok {
				t.Fatal("the resource is not counted")
			}
			used := e.usageOf(tt.obj, time.Now())
			if got := shown(used); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			for name := range used {
				if !e.tracks(name) {
					t.Errorf("%s is used and not tracked", name)
				}
				if counted := CountedResources(corev1.ResourceList{name: {}}); !slices.Contains(counted, tt.resource) {
					t.Errorf("the counted resources of %s are %v", name, counted)
				}
			}
		})
	}
}

// TestUsageOfManyContainers computes the usage of a pod with many containers and statuses. Comparing all pairs
// would take minutes.
func TestUsageOfManyContainers(t *testing.T) {
	t.Parallel()
	const n = 100_000
	pod := &corev1.Pod{}
	for i := range n {
		name := fmt.Sprint("container", n+i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, AllocatedResources: amounts("cpu=1m")})
	}
	e, _ := evaluatorOf(pods)
	if got, want := shown(e.usageOf(pod, time.Now())), "count/pods=1,cpu=100,pods=1,requests.cpu=100"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNotCounted(t *testing.T) {
	t.Parallel()
	for _, r := range []schema.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Resource: "bindings"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}} {
		if _, ok := evaluatorOf(r); ok {
			t.Errorf("%s is counted", r)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	pod := func(text string) codec.Object { return parse[corev1.Pod](t, text) }
	claim := func(text string) codec.Object { return parse[corev1.PersistentVolumeClaim](t, text) }
	plain := pod(`{spec: {containers: [{name: c}]}}`)
	burstable := pod(`{spec: {containers: [{name: c, resources: {limits: {memory: 1Mi}}}]}}`)
	for _, tt := range []struct {
		name     string
		scope    corev1.ResourceQuotaScope
		operator corev1.ScopeSelectorOperator
		values   string
		resource schema.GroupResource
		obj      codec.Object
		want     bool
	}{
		{"best effort", corev1.ResourceQuotaScopeBestEffort, "Exists", "", pods, plain, true},
		{"not best effort", corev1.ResourceQuotaScopeBestEffort, "Exists", "", pods, burstable, false},
		{"NotBestEffort", corev1.ResourceQuotaScopeNotBestEffort, "Exists", "", pods, burstable, true},
		{"best effort by its status", corev1.ResourceQuotaScopeBestEffort, "Exists", "", pods, pod(`{status: {qosClass: BestEffort}, spec: {containers: [{name: c, resources: {limits: {memory: 1Mi}}}]}}`), true},
		{"not best effort by pod-level resources", corev1.ResourceQuotaScopeBestEffort, "Exists", "", pods, pod(`{spec: {resources: {requests: {cpu: 1m}}, containers: [{name: c}]}}`), false},
		{"terminating", corev1.ResourceQuotaScopeTerminating, "Exists", "", pods, pod(`{spec: {activeDeadlineSeconds: 0}}`), true},
		{"not terminating", corev1.ResourceQuotaScopeTerminating, "Exists", "", pods, plain, false},
		{"NotTerminating", corev1.ResourceQuotaScopeNotTerminating, "Exists", "", pods, plain, true},
		{"with a priority class", corev1.ResourceQuotaScopePriorityClass, "Exists", "", pods, pod(`{spec: {priorityClassName: high}}`), true},
		{"without a priority class", corev1.ResourceQuotaScopePriorityClass, "Exists", "", pods, plain, false},
		{"DoesNotExist without a priority class", corev1.ResourceQuotaScopePriorityClass, "DoesNotExist", "", pods, plain, true},
		{"in", corev1.ResourceQuotaScopePriorityClass, "In", "low,high", pods, pod(`{spec: {priorityClassName: high}}`), true},
		{"not in", corev1.ResourceQuotaScopePriorityClass, "In", "low", pods, pod(`{spec: {priorityClassName: high}}`), false},
		{"In without a priority class", corev1.ResourceQuotaScopePriorityClass, "In", "low", pods, plain, false},
		{"NotIn", corev1.ResourceQuotaScopePriorityClass, "NotIn", "low", pods, pod(`{spec: {priorityClassName: high}}`), true},
		{"NotIn without a priority class", corev1.ResourceQuotaScopePriorityClass, "NotIn", "low", pods, plain, true},
		{"across namespaces", corev1.ResourceQuotaScopeCrossNamespacePodAffinity, "Exists", "", pods, pod(`{spec: {affinity: {podAntiAffinity: {
			preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: k, namespaces: [x]}}]}}}}`), true},
		{"across namespaces by a selector", corev1.ResourceQuotaScopeCrossNamespacePodAffinity, "Exists", "", pods, pod(`{spec: {affinity: {podAffinity: {
			requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k, namespaceSelector: {}}]}}}}`), true},
		{"within its namespace", corev1.ResourceQuotaScopeCrossNamespacePodAffinity, "Exists", "", pods, pod(`{spec: {affinity: {podAffinity: {
			requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: k}]}}}}`), false},
		{"desired attributes class", corev1.ResourceQuotaScopeVolumeAttributesClass, "In", "gold", claims, claim(`{spec: {volumeAttributesClassName: gold}}`), true},
		{"current attributes class", corev1.ResourceQuotaScopeVolumeAttributesClass, "In", "gold", claims, claim(`{spec: {volumeAttributesClassName: new}, status: {currentVolumeAttributesClassName: gold}}`), true},
		{"target attributes class", corev1.ResourceQuotaScopeVolumeAttributesClass, "In", "gold", claims, claim(`{status: {modifyVolumeStatus: {targetVolumeAttributesClassName: gold}}}`), true},
		{"no attributes class", corev1.ResourceQuotaScopeVolumeAttributesClass, "Exists", "", claims, claim(`{}`), false},
		{"scope of pods for a service", corev1.ResourceQuotaScopeBestEffort, "Exists", "", services, &corev1.Service{}, false},
		{"scope of pods for a claim", corev1.ResourceQuotaScopeBestEffort, "Exists", "", claims, claim(`{}`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, _ := evaluatorOf(tt.resource)
			requirement := corev1.ScopedResourceSelectorRequirement{ScopeName: tt.scope, Operator: tt.operator}
			if tt.values != "" {
				requirement.Values = strings.Split(tt.values, ",")
			}
			spec := &corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{requirement}}}
			if got := e.inScopes(spec, tt.obj); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}

func quotaOf(name, hard, used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Scopes: scopes, Hard: amounts(hard)}}
	q.Status.Hard, q.Status.Used = amounts(hard), amounts(used)
	return q
}

func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for item := range strings.SplitSeq(text, ",") {
		if name, quantity, ok := strings.Cut(item, "="); ok {
			list[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
	}
	return list
}

func TestCheck(t *testing.T) {
	t.Parallel()
	pod := func(text string) codec.Object { return parse[corev1.Pod](t, text) }
	cpu := pod(`{spec: {containers: [{name: c, resources: {requests: {cpu: 600m}}}]}}`)
	important := pod(`{spec: {priorityClassName: high, containers: [{name: c}]}}`)
	priority := []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: "In", Values: []string{"high"}}}
	gold := parse[corev1.PersistentVolumeClaim](t, `{spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}}`)
	for _, tt := range []struct {
		name    string
		write   Write
		quotas  []*corev1.ResourceQuota
		limited []Limited
		want    string
	}{
		{"within", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("q", "pods=1,requests.cpu=1", "pods=0,requests.cpu=400m")}, nil, ""},
		{"two limits exceeded", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("q", "pods=1,requests.cpu=1", "pods=1,requests.cpu=600m")}, nil,
			"exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=1,requests.cpu=600m, limited: pods=1,requests.cpu=1"},
		{"another resource already over its limit", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("q", "pods=5,services=1", "pods=1,services=3")}, nil, ""},
		{"the second quota", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("p", "pods=5", "pods=1"), quotaOf("q", "pods=1", "pods=1")}, nil,
			"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
		{"required fields are missing", Write{Resource: pods, Object: pod(`{spec: {initContainers: [{name: b}], containers: [{name: c, resources: {limits: {cpu: "1"}}}, {name: a}]}}`)},
			[]*corev1.ResourceQuota{quotaOf("q", "cpu=1,limits.cpu=1,requests.storage=1", "cpu=0,limits.cpu=0,requests.storage=0")}, nil,
			"failed quota: q: must specify cpu for: a,b,c; limits.cpu for: a,b"},
		{"pod-level resources", Write{Resource: pods, Object: pod(`{spec: {resources: {requests: {cpu: 100m}}, containers: [{name: c}]}}`)},
			[]*corev1.ResourceQuota{quotaOf("q", "requests.cpu=1,limits.memory=1", "requests.cpu=0,limits.memory=0")}, nil, ""},
		{"pod-level resources without cpu and memory", Write{Resource: pods, Object: pod(`{spec: {resources: {}, containers: [{name: c}]}}`)},
			[]*corev1.ResourceQuota{quotaOf("q", "requests.cpu=1", "requests.cpu=0")}, nil, "failed quota: q: must specify requests.cpu for: c"},
		{"not counted yet", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("q", "pods=5,cpu=7", "pods=1")}, nil, "status unknown for quota: q, resources: cpu,pods"},
		{"another scope", Write{Resource: pods, Object: cpu}, []*corev1.ResourceQuota{quotaOf("q", "pods=0", "pods=0", corev1.ResourceQuotaScopeBestEffort)}, nil, ""},
		{"update of the spec", Write{Resource: pods, Object: cpu, Old: important}, []*corev1.ResourceQuota{quotaOf("q", "requests.cpu=0", "requests.cpu=0")}, nil, ""},
		{"a resize", Write{Resource: pods, Subresource: "resize", Object: cpu, Old: pod(`{spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}`)},
			[]*corev1.ResourceQuota{quotaOf("q", "requests.cpu=500m,pods=1", "requests.cpu=100m,pods=1")}, nil,
			"exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=100m, limited: requests.cpu=500m"},
		{"another type of service", Write{Resource: services, Object: parse[corev1.Service](t, `{spec: {type: NodePort, ports: [{port: 1}]}}`), Old: &corev1.Service{}},
			[]*corev1.ResourceQuota{quotaOf("q", "services.nodeports=0", "services.nodeports=0")}, nil,
			"exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"},
		{"limited without a quota", Write{Resource: claims, Object: gold}, nil, []Limited{{Resource: claims, Contains: []string{"gold.storageclass.storage.k8s.io/requests"}}},
			"insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage"},
		{"limited with a quota", Write{Resource: claims, Object: gold}, []*corev1.ResourceQuota{quotaOf("q", "gold.storageclass.storage.k8s.io/requests.storage=5Gi", "gold.storageclass.storage.k8s.io/requests.storage=0")},
			[]Limited{{Resource: claims, Contains: []string{"gold.storageclass.storage.k8s.io/requests"}}}, ""},
		{"a limited scope", Write{Resource: pods, Object: important}, nil, []Limited{{Resource: pods, Scopes: priority}},
			"insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
		{"a limited scope with a quota", Write{Resource: pods, Object: important},
			[]*corev1.ResourceQuota{quotaOf("q", "pods=1", "pods=0", corev1.ResourceQuotaScopePriorityClass)}, []Limited{{Resource: pods, Scopes: priority}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, _ := measure(t.Context(), &tt.write)
			if !m.enforces(tt.write.Old == nil, tt.write.Subresource) {
				if tt.want != "" {
					t.Error("the write is not checked")
				}
				return
			}
			got := ""
			if err := m.check(tt.quotas, tt.limited); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
