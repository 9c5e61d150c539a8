package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/host/fleet"
)

// rootName is the argument that names the root control plane in commands.
const rootName = "root"

// forkCommand is the command fork.
type forkCommand struct {
	kubeconfig, at, output string
	allowCalls             bool
	timeout                time.Duration

	client *apiClient
	out    io.Writer
}

func newFork(signals <-chan os.Signal) *cobra.Command {
	var f forkCommand
	command := &cobra.Command{
		Use:   "fork SOURCE NAME",
		Short: "Create a writable copy of a control plane",
		Long: `Create the control plane NAME as a writable copy of the control plane SOURCE, now or at an
earlier time. SOURCE is the name of a ControlPlane object, or root. The command writes a
kubeconfig for the copy.

The copy calls no webhooks, aggregated API servers and kubelets, unless --allow-calls is
set. "mainstay diff" prints its changes, and "mainstay apply-diff" carries them over.
"kubectl delete controlplane NAME" deletes the copy.`,
		Example: `  mainstay fork root try-upgrade
  mainstay fork prod incident --at=-15m --output=incident.kubeconfig`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilSignal(signals)
			defer stop()
			if len(args) != 2 {
				return &usageError{errors.New("fork requires SOURCE and NAME")}
			}
			f.out = c.OutOrStdout()
			if f.client, err = newAPIClient(f.kubeconfig); err != nil {
				return err
			}
			return f.run(ctx, args[0], args[1])
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.at, "at", "", "time of the copied state, such as 2026-11-27T14:02:00Z, -15m or rv/ and a resourceVersion; the default is now")
	flags.BoolVar(&f.allowCalls, "allow-calls", false, "allow the copy to call webhooks, aggregated API servers and kubelets")
	flags.StringVarP(&f.output, "output", "o", "", "file for the kubeconfig of the copy (default: NAME.kubeconfig)")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "maximum time until the copy is ready")
	kubeconfigVar(flags, &f.kubeconfig)
	return command
}

func (f *forkCommand) run(ctx context.Context, source, name string) error {
	from := &controlplanes.Source{}
	if source != rootName {
		from.ControlPlane = source
	}
	if f.allowCalls {
		from.OutgoingCalls = controlplanes.AllowCalls
	}
	if f.at != "" {
		moment, err := parseMoment(f.at, time.Now())
		if err != nil {
			return &usageError{err}
		}
		if moment.Revision > 0 {
			from.ResourceVersion = strconv.FormatInt(int64(moment.Revision), 10)
		} else {
			from.Time = &metav1.Time{Time: moment.Time}
		}
	}
	file := f.output
	if file == "" {
		file = name + ".kubeconfig"
		if err := requireAbsent(file); err != nil { // it may be the kubeconfig of a cluster
			return &usageError{fmt.Errorf("%s: %w; choose another file with --output", file, err)}
		}
	}
	object := controlplanes.ControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanes.Resource().GroupVersion().String(), Kind: controlplanes.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: controlplanes.Spec{From: from},
	}
	if err := f.client.do(ctx, http.MethodPost, controlPlanesPath(), &object, &object); err != nil {
		return err
	}
	created, err := f.await(ctx, name)
	if err != nil {
		return errors.Join(err, f.delete(context.WithoutCancel(ctx), object.UID, name))
	}
	if err := f.writeKubeconfig(ctx, created, file); err != nil {
		return fmt.Errorf("the copy %s was created, but its kubeconfig could not be written: %w; delete the copy with \"kubectl delete controlplane %s\", or read the kubeconfig from its Secret", name, err, name)
	}
	_, err = fmt.Fprintf(f.out, "%s is a copy of %s at revision %s\nkubectl --kubeconfig=%s get namespaces\n", name, source, created.Status.SourceRevision, shellQuote(file))
	return err
}

// delete deletes the control plane with the given UID, after it could not become ready.
func (f *forkCommand) delete(ctx context.Context, uid types.UID, name string) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	return f.client.do(ctx, http.MethodDelete, controlPlanePath(name), &options, &json.RawMessage{})
}

func controlPlanesPath() string { return "/apis/mainstay.dev/v1/controlplanes" }

func controlPlanePath(name string) string { return controlPlanesPath() + "/" + url.PathEscape(name) }

// forkPoll is the interval at which the state of a new fork is requested.
const forkPoll = 20 * time.Millisecond

// await waits until a control plane is ready. After the timeout, it returns an error with the last reason in
// the control plane's Ready condition.
func (f *forkCommand) await(ctx context.Context, name string) (*controlplanes.ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	reason := "it was not processed"
	for {
		var object controlplanes.ControlPlane
		err := f.client.do(ctx, http.MethodGet, controlPlanePath(name), nil, &object)
		var rejected *apiError
		ready := meta.FindStatusCondition(object.Status.Conditions, controlplanes.ConditionReady)
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &rejected) && rejected.code < http.StatusInternalServerError:
			return nil, err
		case err != nil:
			reason = err.Error() // the server may be restarting
		case ready == nil:
		case ready.Status == metav1.ConditionTrue:
			return &object, nil
		case strings.HasPrefix(ready.Reason, "Source"):
			return nil, fmt.Errorf("the control plane %s cannot be created: %s", name, ready.Message)
		default:
			reason = ready.Message
		}
		select {
		case <-time.After(forkPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("the control plane %s is not ready: %s", name, reason)
		}
	}
}

// writeKubeconfig writes the kubeconfig of a control plane to a file that only the user can read.
func (f *forkCommand) writeKubeconfig(ctx context.Context, object *controlplanes.ControlPlane, file string) error {
	reference := object.Status.KubeconfigSecretRef
	if reference == nil {
		return errors.New("the control plane has no kubeconfig")
	}
	var secret corev1.Secret
	path := "/api/v1/namespaces/" + url.PathEscape(reference.Namespace) + "/secrets/" + url.PathEscape(reference.Name)
	if err := f.client.do(ctx, http.MethodGet, path, nil, &secret); err != nil {
		return err
	}
	return writeCredentials(file, secret.Data[fleet.KubeconfigKey])
}
