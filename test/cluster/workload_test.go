package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/apitest/manifests"
	"mainstay.dev/mainstay/test/testserver"
)

// namespace is the namespace that testdata/shop.yaml uses.
const namespace = "shop"

// workload consists of the objects in testdata/shop.yaml.
type workload struct {
	*site
	client kubernetes.Interface
}

// newWorkload returns a client for the workload, and runs the simulated nodes until the test ends.
func newWorkload(s *site) *workload {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.server.RESTConfig())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { (&kubelets{client: client, t: s.t}).run(ctx) })
	s.t.Cleanup(func() { cancel(); running.Wait() })
	return &workload{site: s, client: client}
}

// open creates all objects and waits until the workload runs.
func (s *workload) open() {
	s.t.Helper()
	objects, err := manifests.Read("testdata")
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(s.server.RESTConfig())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := (&manifests.Client{HTTP: client, URL: s.server.URL()}).Apply(s.t.Context(), objects); err != nil {
		s.t.Fatal(err)
	}
	for _, await := range []func(context.Context) error{s.jobDone, s.quotaCounted, s.claimBound, s.tokenFilled, s.rolesAggregated, s.nodesAddressed} {
		s.await(await)
	}
	s.await(func(ctx context.Context) error { return s.running(ctx, 5) })
	s.sign()
}

func (s *workload) await(condition func(context.Context) error) {
	s.t.Helper()
	testserver.Eventually(s.t, timeout, func() error { return condition(s.t.Context()) })
}

// unless returns err, or an error with the formatted text if ok is false.
func unless(ok bool, err error, format string, args ...any) error {
	if err == nil && !ok {
		err = fmt.Errorf(format, args...)
	}
	return err
}

// running returns an error unless all parts of the workload run.
func (s *workload) running(ctx context.Context, replicas int32) error {
	web, err := s.client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	complete := web.Status.ObservedGeneration == web.Generation && web.Status.Replicas == replicas && web.Status.ReadyReplicas == replicas
	if err := unless(complete, err, "the Deployment has %d of %d replicas", web.Status.ReadyReplicas, replicas); err != nil {
		return err
	}
	db, err := s.client.AppsV1().StatefulSets(namespace).Get(ctx, "db", metav1.GetOptions{})
	if err := unless(db.Status.ReadyReplicas == 3, err, "the StatefulSet has %d replicas", db.Status.ReadyReplicas); err != nil {
		return err
	}
	agent, err := s.client.AppsV1().DaemonSets(namespace).Get(ctx, "agent", metav1.GetOptions{})
	if err := unless(agent.Status.NumberReady == nodes, err, "the DaemonSet has %d pods", agent.Status.NumberReady); err != nil {
		return err
	}
	budget, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err := unless(budget.Status.CurrentHealthy == replicas, err, "the disruption budget counts %d pods", budget.Status.CurrentHealthy); err != nil {
		return err
	}
	slices, err := s.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
	return unless(len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == int(replicas), err, "the service does not have %d endpoints", replicas)
}

// jobDone accepts a missing Job, because it is deleted one second after its completion.
func (s *workload) jobDone(ctx context.Context) error {
	once, err := s.client.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return unless(false, err, "the Job has %d pods that succeeded, and is still there", once.Status.Succeeded)
}

func (s *workload) quotaCounted(ctx context.Context) error {
	quota, err := s.client.CoreV1().ResourceQuotas(namespace).Get(ctx, "q", metav1.GetOptions{})
	for name, want := range map[corev1.ResourceName]int64{"count/deployments.apps": 1, "services": 2, "persistentvolumeclaims": 1} {
		used := quota.Status.Used[name]
		err = unless(used.Value() == want, err, "the quota counts %s %s, want %d", used.String(), name, want)
	}
	return err
}

func (s *workload) claimBound(ctx context.Context) error {
	claim, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data", metav1.GetOptions{})
	return unless(claim.Status.Phase == corev1.ClaimBound, err, "the claim is %s", claim.Status.Phase)
}

// tokenFilled checks that the token in the secret authenticates a user who cannot list pods.
func (s *workload) tokenFilled(ctx context.Context) error {
	secret, err := s.client.CoreV1().Secrets(namespace).Get(ctx, "tok", metav1.GetOptions{})
	token := secret.Data[corev1.ServiceAccountTokenKey]
	if err := unless(len(token) > 0, err, "the secret has no token"); err != nil {
		return err
	}
	config := rest.AnonymousClientConfig(s.server.RESTConfig())
	config.BearerToken = string(token)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err = client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}); apierrors.IsForbidden(err) {
		return nil
	}
	return unless(false, err, "the account may list pods")
}

func (s *workload) rolesAggregated(ctx context.Context) error {
	role, err := s.client.RbacV1().ClusterRoles().Get(ctx, "agg", metav1.GetOptions{})
	return unless(len(role.Rules) > 0, err, "the aggregated role has no rules")
}

func (s *workload) nodesAddressed(ctx context.Context) error {
	all, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	err = unless(len(all.Items) == nodes, err, "there are %d nodes", len(all.Items))
	for _, node := range all.Items {
		err = unless(node.Spec.PodCIDR != "", err, "%s has no addresses for pods", node.Name)
	}
	return err
}

// sign creates and approves a certificate signing request, and waits until it is signed.
func (s *workload) sign() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	if err != nil {
		s.t.Fatal(err)
	}
	requests := s.client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(s.t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	if _, err := requests.UpdateApproval(s.t.Context(), "jane", csr, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await(func(ctx context.Context) error {
		csr, err := requests.Get(ctx, "jane", metav1.GetOptions{})
		return unless(len(csr.Status.Certificate) > 0, err, "there is no certificate")
	})
}

// scale sets the number of replicas of the Deployment.
func (s *workload) scale(replicas int32) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := s.client.AppsV1().Deployments(namespace).Patch(s.t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await(func(ctx context.Context) error { return s.running(ctx, replicas) })
}

// close deletes all objects. It uses each propagation policy once.
func (s *workload) close() {
	s.t.Helper()
	delete := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	ctx, apps := s.t.Context(), s.client.AppsV1()
	delete(apps.Deployments(namespace).Delete(ctx, "web", propagate(metav1.DeletePropagationForeground)))
	delete(apps.StatefulSets(namespace).Delete(ctx, "db", propagate(metav1.DeletePropagationBackground)))
	delete(apps.DaemonSets(namespace).Delete(ctx, "agent", propagate(metav1.DeletePropagationOrphan)))
	s.await(func(ctx context.Context) error { return s.podsLeft(ctx, nodes) })
	delete(s.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	s.await(func(ctx context.Context) error {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return s.podsLeft(ctx, 0)
		}
		return unless(false, err, "the namespace is still there")
	})
}

func propagate(how metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &how}
}

// podsLeft returns an error unless the number of remaining pods is orphans. It ignores the pods of the CronJob,
// which are created at random times.
func (s *workload) podsLeft(ctx context.Context, orphans int) error {
	all, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app"})
	return unless(len(all.Items) == orphans, err, "there are %d pods, want %d", len(all.Items), orphans)
}

// takenBack waits until the server's controllers have resumed their work.
func (s *workload) takenBack() {
	s.t.Helper()
	if _, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.await(func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts("later").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
