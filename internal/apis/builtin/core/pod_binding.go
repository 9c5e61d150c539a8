package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

func bindingVersion() *codec.Version {
	return builtin.VirtualVersion[corev1.Binding](corev1.SchemeGroupVersion.WithKind("Binding"))
}

// podBinding declares the /binding subresource, with which schedulers assign a pod to a node.
func podBinding() builtin.Subresource {
	return builtin.Subresource{
		Name: "binding", Version: bindingVersion(),
		Storage: func(_ *builtin.Env, store *registry.Store) rest.Storage { return binder{pods: store} },
	}
}

// bindings declares the older API for assigning a pod to a node, in which the request body contains the name
// of the pod.
func bindings() builtin.Virtual {
	return builtin.Virtual{
		Name: "bindings", Version: bindingVersion(), Namespaced: true,
		Storage: func(env *builtin.Env) rest.Storage { return bindingCollection{env} },
	}
}

type bindingCollection struct{ env *builtin.Env }

// Create implements rest.Creater. The record is nil, because the response is a Status.
func (c bindingCollection) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return binder{pods: c.env.Store(podResource())}.CreateNamed(ctx, name, obj, validate, options)
}

func podResource() schema.GroupResource { return corev1.Resource("pods") }

type binder struct{ pods *registry.Store }

var _ rest.NamedCreater = binder{}

// CreateNamed implements rest.NamedCreater. The record is nil, because the response is a Status.
func (b binder) CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	binding := obj.(*corev1.Binding)
	if binding.Name != name.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		// The message is the same as in kube-apiserver. The code is not 500, because the request is invalid.
		return nil, apierrors.NewBadRequest(errs.ToAggregate().Error())
	}
	if validate != nil {
		if err := validate(ctx, binding, nil); err != nil {
			return nil, err
		}
	}
	_, _, err := rawPods(b.pods).Update(ctx, name, func(_ context.Context, current codec.Object) (codec.Object, error) {
		pod := current.DeepCopyObject().(*corev1.Pod)
		if err := assign(pod, binding, simulation.Now(ctx)); err != nil {
			return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), pod.Name, err)
		}
		return pod, nil
	}, rest.UpdateOptions{
		UpdateOptions: metav1.UpdateOptions{DryRun: options.DryRun}, Preconditions: preconditionsOf(binding),
	})
	return nil, err
}

// rawPods returns storage that writes pods without applying the rules for client requests.
func rawPods(pods *registry.Store) *registry.SubresourceStore {
	return &registry.SubresourceStore{Store: pods, Strategy: &registry.Strategy{Namespaced: true}}
}

func validateBinding(binding *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs
}

// preconditionsOf returns the UID and resource version that the pod must have according to the binding.
func preconditionsOf(binding *corev1.Binding) *metav1.Preconditions {
	var p metav1.Preconditions
	if binding.UID != "" {
		p.UID = &binding.UID
	}
	if binding.ResourceVersion != "" {
		p.ResourceVersion = &binding.ResourceVersion
	}
	return &p
}

// assign sets the pod's node. It also copies the binding's annotations and labels to the pod.
func assign(pod *corev1.Pod, binding *corev1.Binding, now time.Time) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return errors.New("pod " + pod.Name + " has non-empty .spec.schedulingGates")
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	pod.Annotations = merged(pod.Annotations, binding.Annotations)
	pod.Labels = merged(pod.Labels, binding.Labels)
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, now)
	return nil
}

// merged returns m with the entries of more added. It modifies m, unless m is nil.
func merged(m, more map[string]string) map[string]string {
	if m == nil {
		return more
	}
	maps.Copy(m, more)
	return m
}
