package core

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// podLog declares the /log subresource, which reads the log of a container. Its kind in discovery is Pod.
func podLog() builtin.Subresource {
	return builtin.Subresource{Name: "log", Storage: func(env *builtin.Env, store *registry.Store) rest.Storage {
		return &logReader{podConnection{env, store}}
	}}
}

type logReader struct{ podConnection }

var _ rest.Connecter = (*logReader)(nil)

// Connection implements rest.Connecter.
func (*logReader) Connection() rest.Connection {
	return rest.Connection{Methods: []string{http.MethodGet}, Options: "PodLogOptions", LongRunning: true, Text: true}
}

// ConnectOptions implements rest.Connecter.
func (*logReader) ConnectOptions(values url.Values, _ string) (runtime.Object, error) {
	q := &query{values: values}
	options := &corev1.PodLogOptions{
		Container: q.text("container"), Follow: q.flag("follow"), Previous: q.flag("previous"),
		SinceSeconds: q.number("sinceSeconds"), SinceTime: q.time("sinceTime"), Timestamps: q.flag("timestamps"),
		TailLines: q.number("tailLines"), LimitBytes: q.number("limitBytes"),
		InsecureSkipTLSVerifyBackend: q.flag("insecureSkipTLSVerifyBackend"),
	}
	if values.Has("stream") {
		options.Stream = new(q.text("stream"))
	}
	return options, q.err
}

// Connect implements rest.Connecter. If the pod is not scheduled yet, the response is 204.
func (l *logReader) Connect(ctx context.Context, name types.NamespacedName, obj runtime.Object, onError rest.ErrorWriter) (http.Handler, error) {
	options := obj.(*corev1.PodLogOptions)
	splits := l.env.Gates.Enabled(feature.PodLogsQuerySplitStreams)
	if errs := validateLogOptions(options, splits); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, name.Name, errs)
	}
	pod, err := readStored[*corev1.Pod](ctx, l.pods, name)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, options.Container)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), nil
	}
	at, err := l.kubelet(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	return l.env.Connections.Kubelets.Logs(&kubelet.Log{
		Kubelet: at, Namespace: pod.Namespace, Pod: pod.Name, Container: container, Query: logQuery(options, splits),
		Follow: options.Follow, InsecureSkipTLSVerify: options.InsecureSkipTLSVerifyBackend,
	}, onError), nil
}

func validateLogOptions(o *corev1.PodLogOptions, splits bool) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	return append(errs, validateLogStream(o, splits)...)
}

func validateLogStream(o *corev1.PodLogOptions, splits bool) field.ErrorList {
	path, known := field.NewPath("stream"), []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}
	switch {
	case o.Stream == nil:
	case !splits:
		return field.ErrorList{field.Forbidden(path, "may not be specified")}
	case !slices.Contains(known, *o.Stream):
		return field.ErrorList{field.NotSupported(path, *o.Stream, known)}
	case o.TailLines != nil && *o.Stream != corev1.LogStreamAll:
		return field.ErrorList{field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now")}
	}
	return nil
}

// logQuery returns the query parameters for the request to the kubelet.
func logQuery(o *corev1.PodLogOptions, splits bool) url.Values {
	query := url.Values{}
	for name, set := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if set {
			query.Set(name, "true")
		}
	}
	for name, value := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if value != nil {
			query.Set(name, strconv.FormatInt(*value, 10))
		}
	}
	if o.SinceTime != nil {
		query.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if splits {
		stream := corev1.LogStreamAll
		if o.Stream != nil {
			stream = *o.Stream
		}
		query.Set("stream", fmt.Sprint(stream))
	}
	return query
}
