package e2e

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var rollingOut = []kubectlBehavior{
	{"tells the history of a deployment", rolloutHistory},
	{"undoes a deployment's last change", rolloutUndo},
	{"tells the status of a deployment", rolloutStatus},
	{"pauses, resumes and restarts", rolloutPause},
	{"knows the revisions of a stateful set", rolloutControllerRevisions},
}

// newRevision creates a ReplicaSet for the current pod template, as the deployment controller would.
func newRevision(t *testing.T, k *kubectl, deployment string, revision int) {
	t.Helper()
	d, err := k.client.AppsV1().Deployments(k.namespace).Get(t.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := *d.Spec.Template.DeepCopy()
	template.Labels["pod-template-hash"] = "rev" + strconv.Itoa(revision)
	_, err = k.client.AppsV1().ReplicaSets(k.namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            deployment + "-" + strconv.Itoa(revision),
			Labels:          template.Labels,
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(revision)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// twoRevisions creates a Deployment with the image nginx:1 and updates the image to nginx:2.
func twoRevisions(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx:1")...)
	newRevision(t, k, "web", 1)
	k.ok(args("set image deployment/web nginx=nginx:2")...)
	newRevision(t, k, "web", 2)
}

func rolloutHistory(t *testing.T, k *kubectl) {
	twoRevisions(t, k)
	k.matches(`deployment.apps/web \nREVISION +CHANGE-CAUSE\n1 +<none>\n2 +<none>\n`, args("rollout history deployment web")...)
	k.printsAll(args("rollout history deployment web --revision=1"), "deployment.apps/web with revision #1", "nginx:1")
	k.fails(1, "unable to find the specified revision", args("rollout history deployment web --revision=7")...)
}

func rolloutUndo(t *testing.T, k *kubectl) {
	twoRevisions(t, k)
	k.prints("deployment.apps/web rolled back", args("rollout undo deployment web")...)
	k.prints("nginx:1", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	k.prints("deployment.apps/web rolled back", args("rollout undo deployment web --to-revision=2")...)
	k.prints("nginx:2", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

func rolloutStatus(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx --replicas=2")...)
	k.prints("Waiting for deployment spec update to be observed...", args("rollout status deployment web --watch=false")...)
	k.ok("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p",
		`{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}`)
	k.prints(`deployment "web" successfully rolled out`, args("rollout status deployment web")...)
}

func rolloutPause(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx")...)
	k.prints("deployment.apps/web paused", args("rollout pause deployment web")...)
	k.fails(1, "is already paused", args("rollout pause deployment web")...)
	k.prints("deployment.apps/web resumed", args("rollout resume deployment web")...)
	k.prints("deployment.apps/web restarted", args("rollout restart deployment web")...)
	if at := k.ok("get", "deployment", "web", "-o", `jsonpath={.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}`); !strings.Contains(at, "T") {
		t.Errorf("restarted at %q", at)
	}
}

func rolloutControllerRevisions(t *testing.T, k *kubectl) {
	k.okWith(statefulSet, "create", "-f", "-")
	set, err := k.client.AppsV1().StatefulSets(k.namespace).Get(t.Context(), "db", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, image := range []string{"postgres:16", "postgres:17"} {
		_, err := k.client.AppsV1().ControllerRevisions(k.namespace).Create(t.Context(), &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: "db-" + strconv.Itoa(i), Labels: set.Spec.Selector.MatchLabels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
			},
			Revision: int64(i + 1),
			Data:     runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"db","image":"` + image + `"}]}}}}`)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	k.matches(`REVISION +CHANGE-CAUSE\n1 +<none>\n2 +<none>\n`, args("rollout history statefulset db")...)
	k.prints("statefulset.apps/db rolled back", args("rollout undo statefulset db --to-revision=1")...)
	k.prints("postgres:16", "get", "statefulset", "db", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}
