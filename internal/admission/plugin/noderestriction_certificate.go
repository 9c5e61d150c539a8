package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// podCertificate restricts certificate requests for pods to the node's own pods, and requires the
// current UIDs of the pod, its service account and the node.
func (p NodeRestriction) podCertificate(ctx context.Context, a *admission.Attributes, node string) error {
	asked, _ := a.Object.(*certificatesv1.PodCertificateRequest)
	switch {
	case !p.PodCertificates:
		return refuse(a, errors.New("PodCertificateRequest feature gate is disabled"))
	case a.Operation != admission.Create || asked == nil:
		return refuse(a, fmt.Errorf("unexpected operation %v", a.Operation))
	case a.Resource.Subresource != "":
		return refuse(a, fmt.Errorf("unexpected subresource %v", a.Resource.Subresource))
	case string(asked.Spec.NodeName) != node:
		return refuse(a, fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", asked.Spec.NodeName, node))
	}
	for _, check := range []func(context.Context, *admission.Attributes, *certificatesv1.PodCertificateRequestSpec) error{
		p.certifiedNode, p.certifiedPod, p.certifiedAccount,
	} {
		if err := check(ctx, a, &asked.Spec); err != nil {
			return err
		}
	}
	return nil
}

func (p NodeRestriction) certifiedNode(ctx context.Context, a *admission.Attributes, asked *certificatesv1.PodCertificateRequestSpec) error {
	node, err := p.Nodes.Get(ctx, types.NamespacedName{Name: string(asked.NodeName)})
	if err != nil {
		return notRetrieved(a, "node", string(asked.NodeName), err)
	}
	if node.UID != asked.NodeUID {
		return mayPass(fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", a.Namespace+"/"+asked.PodName, asked.NodeUID, node.UID))
	}
	return nil
}

func (p NodeRestriction) certifiedPod(ctx context.Context, a *admission.Attributes, asked *certificatesv1.PodCertificateRequestSpec) error {
	name := a.Namespace + "/" + asked.PodName
	pod, err := p.Pods.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: asked.PodName})
	if err != nil {
		return notRetrieved(a, "pod", name, err)
	}
	if asked.PodUID != pod.UID {
		return mayPass(fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", name, asked.PodUID, pod.UID))
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.Spec.NodeName != string(asked.NodeName):
		return refuse(a, fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", name, asked.NodeName))
	case mirror:
		return refuse(a, fmt.Errorf("pod %q is a mirror pod", name))
	case asked.ServiceAccountName != pod.Spec.ServiceAccountName:
		return refuse(a, fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", name, asked.ServiceAccountName, pod.Spec.ServiceAccountName))
	}
	return nil
}

func (p NodeRestriction) certifiedAccount(ctx context.Context, a *admission.Attributes, asked *certificatesv1.PodCertificateRequestSpec) error {
	account, err := p.Accounts.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: asked.ServiceAccountName})
	if err != nil {
		return notRetrieved(a, "service account", a.Namespace+"/"+asked.ServiceAccountName, err)
	}
	if asked.ServiceAccountUID != account.UID {
		return mayPass(fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", a.Namespace+"/"+asked.PodName, asked.ServiceAccountUID, account.UID))
	}
	return nil
}

// notRetrieved returns the error for an object that a request names and that cannot be read.
func notRetrieved(a *admission.Attributes, kind, name string, err error) error {
	missing := fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", kind, name, err)
	if apierrors.IsNotFound(err) {
		return mayPass(missing)
	}
	return refuse(a, missing)
}

// mayPass returns an error that kubelets retry, because kube-apiserver's caches may be outdated;
// kubelets do not retry after 403.
func mayPass(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown, Message: err.Error()}}
}
