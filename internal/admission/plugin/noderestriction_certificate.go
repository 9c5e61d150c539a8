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

// restrictPodCertificate allows a node to request certificates only for its own pods. The request must contain
// the current UIDs of the pod, its service account and the node.
func (p NodeRestriction) restrictPodCertificate(ctx context.Context, a *admission.Attributes, node string) error {
	spec, _ := a.Object.(*certificatesv1.PodCertificateRequest)
	switch {
	case !p.PodCertificates:
		return reject(a, errors.New("PodCertificateRequest feature gate is disabled"))
	case a.Operation != admission.Create || spec == nil:
		return reject(a, fmt.Errorf("unexpected operation %v", a.Operation))
	case a.Resource.Subresource != "":
		return reject(a, fmt.Errorf("unexpected subresource %v", a.Resource.Subresource))
	case string(spec.Spec.NodeName) != node:
		return reject(a, fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", spec.Spec.NodeName, node))
	}
	for _, check := range []func(context.Context, *admission.Attributes, *certificatesv1.PodCertificateRequestSpec) error{
		p.checkNode, p.checkPod, p.checkServiceAccount,
	} {
		if err := check(ctx, a, &spec.Spec); err != nil {
			return err
		}
	}
	return nil
}

func (p NodeRestriction) checkNode(ctx context.Context, a *admission.Attributes, spec *certificatesv1.PodCertificateRequestSpec) error {
	node, err := p.Nodes.Get(ctx, types.NamespacedName{Name: string(spec.NodeName)})
	if err != nil {
		return lookupError(a, "node", string(spec.NodeName), err)
	}
	if node.UID != spec.NodeUID {
		return retryableError(fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", a.Namespace+"/"+spec.PodName, spec.NodeUID, node.UID))
	}
	return nil
}

func (p NodeRestriction) checkPod(ctx context.Context, a *admission.Attributes, spec *certificatesv1.PodCertificateRequestSpec) error {
	name := a.Namespace + "/" + spec.PodName
	pod, err := p.Pods.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: spec.PodName})
	if err != nil {
		return lookupError(a, "pod", name, err)
	}
	if spec.PodUID != pod.UID {
		return retryableError(fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", name, spec.PodUID, pod.UID))
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.Spec.NodeName != string(spec.NodeName):
		return reject(a, fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", name, spec.NodeName))
	case mirror:
		return reject(a, fmt.Errorf("pod %q is a mirror pod", name))
	case spec.ServiceAccountName != pod.Spec.ServiceAccountName:
		return reject(a, fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", name, spec.ServiceAccountName, pod.Spec.ServiceAccountName))
	}
	return nil
}

func (p NodeRestriction) checkServiceAccount(ctx context.Context, a *admission.Attributes, spec *certificatesv1.PodCertificateRequestSpec) error {
	account, err := p.Accounts.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: spec.ServiceAccountName})
	if err != nil {
		return lookupError(a, "service account", a.Namespace+"/"+spec.ServiceAccountName, err)
	}
	if spec.ServiceAccountUID != account.UID {
		return retryableError(fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", a.Namespace+"/"+spec.PodName, spec.ServiceAccountUID, account.UID))
	}
	return nil
}

// lookupError returns the error for a failed read of an object that the request references.
func lookupError(a *admission.Attributes, kind, name string, err error) error {
	missing := fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", kind, name, err)
	if apierrors.IsNotFound(err) {
		return retryableError(missing)
	}
	return reject(a, missing)
}

// retryableError returns a 500 error, because kubelets retry a request after a 500 but not after a 403.
// kube-apiserver uses it because its caches may be outdated.
func retryableError(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown, Message: err.Error()}}
}
