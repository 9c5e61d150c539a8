package core

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// podStreams declares the subresource exec, attach or portforward, which upgrades the connection.
func podStreams(name, options string, decode func(*query) runtime.Object) builtin.Subresource {
	return connectSubresource(name, options, func(env *builtin.Env, store *registry.Store) rest.Storage {
		return &podStreamer{podConnection{env, store}, options, decode}
	})
}

func podExec() builtin.Subresource {
	return podStreams("exec", "PodExecOptions", func(q *query) runtime.Object {
		return &corev1.PodExecOptions{
			Stdin: q.flag("stdin"), Stdout: q.flag("stdout"), Stderr: q.flag("stderr"), TTY: q.flag("tty"),
			Container: q.text("container"), Command: q.values["command"],
		}
	})
}

func podAttach() builtin.Subresource {
	return podStreams("attach", "PodAttachOptions", func(q *query) runtime.Object {
		return &corev1.PodAttachOptions{
			Stdin: q.flag("stdin"), Stdout: q.flag("stdout"), Stderr: q.flag("stderr"), TTY: q.flag("tty"),
			Container: q.text("container"),
		}
	})
}

func podPortForward() builtin.Subresource {
	return podStreams("portforward", "PodPortForwardOptions", func(q *query) runtime.Object {
		return &corev1.PodPortForwardOptions{Ports: q.ports("ports")}
	})
}

type podStreamer struct {
	podConnection
	options string
	decode  func(*query) runtime.Object
}

var _ rest.Connecter = (*podStreamer)(nil)

// Connection implements rest.Connecter.
func (s *podStreamer) Connection() rest.Connection {
	return rest.Connection{Methods: streamMethods(), Options: s.options, LongRunning: true}
}

// ConnectOptions implements rest.Connecter.
func (s *podStreamer) ConnectOptions(values url.Values, _ string) (runtime.Object, error) {
	q := &query{values: values}
	options := s.decode(q)
	return options, q.err
}

// Connect implements rest.Connecter.
func (s *podStreamer) Connect(ctx context.Context, name types.NamespacedName, options runtime.Object, onError rest.ErrorWriter) (http.Handler, error) {
	if err := s.authorizeCreate(ctx); err != nil {
		return nil, err
	}
	pod, err := readStored[*corev1.Pod](ctx, s.pods, name)
	if err != nil {
		return nil, err
	}
	stream, err := streamOf(pod, options)
	if err != nil {
		return nil, err
	}
	if stream.Kubelet, err = s.assigned(ctx, pod); err != nil {
		return nil, err
	}
	return s.env.Connections.Kubelets.Stream(stream, onError), nil
}

// authorizeCreate requires that the user has permission for the verb create, regardless of the HTTP method. A
// GET that upgrades to a WebSocket has the same effect as a POST.
func (s *podStreamer) authorizeCreate(ctx context.Context) error {
	if !s.env.Gates.Enabled(feature.AuthorizePodWebsocketUpgradeCreatePermission) || s.env.Auth.Authorizer == nil {
		return nil
	}
	asked := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
	if asked.Verb == "create" {
		return nil // the request has already been authorized for this verb
	}
	asked.Verb = "create"
	decision, reason, err := s.env.Auth.Authorizer.Authorize(ctx, &asked)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authorizer.Forbidden(&asked, reason)
}

// streamOf returns the kubelet request for the options of exec, attach or portforward.
func streamOf(pod *corev1.Pod, options runtime.Object) (*kubelet.Stream, error) {
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		stream, err := commandStream("exec", pod, o.Container, kubelet.Streams{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY})
		if err == nil && len(o.Command) > 0 {
			stream.Query["command"] = o.Command
		}
		return stream, err
	case *corev1.PodAttachOptions:
		return commandStream("attach", pod, o.Container, kubelet.Streams{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY})
	case *corev1.PodPortForwardOptions:
		stream := &kubelet.Stream{Path: fmt.Sprintf("/portForward/%s/%s", pod.Namespace, pod.Name), Query: url.Values{}}
		if len(o.Ports) > 0 {
			ports := make([]string, len(o.Ports))
			for i, port := range o.Ports {
				ports[i] = strconv.Itoa(int(port))
			}
			stream.Query.Set(corev1.PortHeader, strings.Join(ports, ","))
		}
		return stream, nil
	}
	return nil, fmt.Errorf("admission left options of type %T", options)
}

// commandStream returns the kubelet request for exec or attach.
func commandStream(what string, pod *corev1.Pod, asked string, streams kubelet.Streams) (*kubelet.Stream, error) {
	container, err := containerOf(pod, asked)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, wanted := range map[string]bool{
		corev1.ExecStdinParam: streams.Stdin, corev1.ExecStdoutParam: streams.Stdout, corev1.ExecStderrParam: streams.Stderr, corev1.ExecTTYParam: streams.TTY,
	} {
		if wanted {
			query.Set(name, "1")
		}
	}
	return &kubelet.Stream{
		Path: fmt.Sprintf("/%s/%s/%s/%s", what, pod.Namespace, pod.Name, container), Query: query, Streams: &streams,
	}, nil
}
