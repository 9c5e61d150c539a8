package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

const (
	quotaName  = "limits"
	quotaPods  = 9
	quotaMaps  = 7 // including kube-root-ca.crt
	quotaNames = 24
	quotaKills = 4
)

// quotaUsers has many more users than the quota permits objects.
var quotaUsers = users{count: 32, writes: 25}

// TestQuotas checks that 32 users cannot exceed a quota. They create, update, terminate and delete objects
// through several servers that share a store, and one of the servers is killed repeatedly. In the end, the
// status of the quota must equal the usage.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		servers int // number of servers over one etcd; 0 for a server with the embedded store
		kills   int
	}{
		{"killed", 0, quotaKills},
		{"etcd shared", 3, 0},
		{"etcd shared and killed", 3, quotaKills},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (tt.servers == 0 || tt.kills == 0) {
				t.Skip("etcd shared and killed covers the rules with -short")
			}
			var flags []string
			if tt.servers > 0 {
				flags = append(flags, "--etcd-servers="+strings.Join(etcdtest.Start(t, etcdtest.Options{}).URLs(), ","))
			}
			victim, clients := startServers(t, max(tt.servers, 1), flags)
			createQuota(t, clients)
			writeWhileKilled(t, victim, clients, tt.kills, random(t), quotaUsers, writeLimited)
			checkQuota(t, clients[0])
			checkQuotaFrees(t, clients)
		})
	}
}

// createQuota creates the quota, and waits until all servers apply it. As in kube-apiserver, a server accepts
// writes without a charge until it has observed the quota.
func createQuota(t *testing.T, clients []*kubernetes.Clientset) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: quotaName}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourcePods: *resource.NewQuantity(quotaPods, resource.DecimalSI), corev1.ResourceRequestsCPU: resource.MustParse("5"),
		corev1.ResourceConfigMaps: *resource.NewQuantity(quotaMaps, resource.DecimalSI), "count/pods": resource.MustParse("100"),
	}}}
	if _, err := clients[0].CoreV1().ResourceQuotas(metav1.NamespaceDefault).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	large := limitedPod("large", random(t))
	large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6")
	for _, client := range clients {
		err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil, expected(err)
		})
		if err != nil {
			t.Fatalf("await the quota: %v", err)
		}
	}
}

// isCharged reports whether a quota counts a pod as running. Pods whose removal has begun are not counted.
func isCharged(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp == nil
}

// writeLimited sends one random write. It returns an error if the response is unexpected, or if the
// objects exceed the quota.
func writeLimited(ctx context.Context, client kubernetes.Interface, rng *rand.Rand) error {
	core, name := client.CoreV1(), fmt.Sprint("o", rng.IntN(quotaNames))
	pods, maps := core.Pods(metav1.NamespaceDefault), core.ConfigMaps(metav1.NamespaceDefault)
	now := int64(0)
	var err error
	switch rng.IntN(9) {
	case 0, 1, 2:
		_, err = pods.Create(ctx, limitedPod(name, rng), dryOrNot(rng))
	case 3:
		var pod *corev1.Pod
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil {
			pod.Status.Phase = corev1.PodSucceeded
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	case 4:
		err = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	case 5, 6:
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, dryOrNot(rng))
	case 7:
		err = maps.Delete(ctx, name, metav1.DeleteOptions{})
	case 8:
		return checkWithin(ctx, client)
	}
	return expected(err)
}

func limitedPod(name string, rng *rand.Rand) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(100*(1+rng.Int64N(8)), resource.DecimalSI)}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests}}},
	}}
}

func dryOrNot(rng *rand.Rand) metav1.CreateOptions {
	if rng.IntN(4) == 0 {
		return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	}
	return metav1.CreateOptions{}
}

// expected returns nil for errors that concurrent writers or a killed server cause, and err for other errors.
func expected(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: "+quotaName+", requested: "):
		return nil
	case errors.As(err, &status) && !apierrors.IsServiceUnavailable(err):
		return err
	}
	time.Sleep(10 * time.Millisecond) // the server does not respond
	return nil
}

// checkWithin reads all objects and returns an error if they exceed the quota.
func checkWithin(ctx context.Context, client kubernetes.Interface) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return expected(err)
	}
	running, milli := 0, int64(0)
	for i := range pods.Items {
		if pod := &pods.Items[i]; isCharged(pod) {
			running++
			milli += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	if running > quotaPods || milli > 5000 {
		return fmt.Errorf("%d pods that ask for %dm of cpu at revision %s", running, milli, pods.ResourceVersion)
	}
	maps, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return expected(err)
	}
	if len(maps.Items) > quotaMaps {
		return fmt.Errorf("%d config maps at revision %s", len(maps.Items), maps.ResourceVersion)
	}
	return nil
}

// checkQuota compares the status of the quota with the stored objects.
func checkQuota(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	quota, err := client.CoreV1().ResourceQuotas(metav1.NamespaceDefault).Get(t.Context(), quotaName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running, cpu := int64(0), resource.Quantity{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; isCharged(pod) {
			running++
			cpu.Add(*pod.Spec.Containers[0].Resources.Requests.Cpu())
		}
	}
	for name, want := range map[corev1.ResourceName]resource.Quantity{
		corev1.ResourcePods: *resource.NewQuantity(running, resource.DecimalSI), corev1.ResourceRequestsCPU: cpu,
		"count/pods":              *resource.NewQuantity(int64(len(pods.Items)), resource.DecimalSI),
		corev1.ResourceConfigMaps: *resource.NewQuantity(int64(len(maps.Items)), resource.DecimalSI),
	} {
		if used := quota.Status.Used[name]; used.Cmp(want) != 0 {
			t.Errorf("%s: the quota reports %s as used; want %s", name, used.String(), want.String())
		}
	}
	t.Logf("%d pods, %d config maps; %v", len(pods.Items), len(maps.Items), quota.Status.Used)
}

// checkQuotaFrees deletes all objects, and then creates new objects until the quota is exhausted.
func checkQuotaFrees(t *testing.T, clients []*kubernetes.Clientset) {
	t.Helper()
	now := int64(0)
	err := clients[0].CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := limitedPod("", random(t))
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1m")
	for i := range quotaPods {
		pod.Name = fmt.Sprint("full", i)
		if _, err := clients[i%len(clients)].CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatalf("pod %d of %d: %v", i, quotaPods, err)
		}
	}
	pod.Name = "more"
	_, err = clients[len(clients)-1].CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
	want := fmt.Sprintf("exceeded quota: %s, requested: pods=1, used: pods=%d, limited: pods=%d", quotaName, quotaPods, quotaPods)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("one more: %v", err)
	}
	checkQuota(t, clients[0])
}
