package upstream

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// newScheme returns a scheme that contains the internal and the stored version of the suites' pods.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := example.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("add the internal pods: %w", err)
	}
	if err := examplev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("add the stored pods: %w", err)
	}
	return scheme, nil
}

// newKind returns the kind of the stored pods.
func newKind(scheme *runtime.Scheme) *codec.Kind {
	return &codec.Kind{
		Hub: &codec.Version{
			GVK:     examplev1.SchemeGroupVersion.WithKind("Pod"),
			New:     func() codec.Object { return &examplev1.Pod{} },
			Default: func(obj codec.Object) { scheme.Default(obj) },
		},
		Fields: func(obj codec.Object) fields.Set {
			return fields.Set{"spec.nodeName": obj.(*examplev1.Pod).Spec.NodeName}
		},
	}
}

// toStored converts an internal pod to the stored version.
func (s *Store) toStored(obj runtime.Object) (*examplev1.Pod, error) {
	pod := &examplev1.Pod{}
	if err := s.scheme.Convert(obj.DeepCopyObject(), pod, nil); err != nil {
		return nil, fmt.Errorf("convert to the stored version: %w", err)
	}
	return pod, nil
}

// fromStored converts a stored pod to the internal version and stores the result in out. It does nothing if out
// is nil.
func (s *Store) fromStored(obj codec.Object, out runtime.Object) error {
	if out == nil {
		return nil
	}
	pod := out.(*example.Pod)
	*pod = example.Pod{}
	if err := s.scheme.Convert(obj, pod, nil); err != nil {
		return fmt.Errorf("convert from the stored version: %w", err)
	}
	return nil
}

func (s *Store) fromRecord(record *codec.Record, out runtime.Object) error {
	obj, err := record.Object()
	if err != nil {
		return err
	}
	return s.fromStored(obj, out)
}
