package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/apitest/manifests"
	"mainstay.dev/mainstay/internal/endpoints"
)

// explainer requests and prints explanations of the admission of objects.
type explainer struct {
	client    *apiClient
	namespace string
	json      bool
	out       io.Writer
}

func newExplainAdmission(signals <-chan os.Signal) *cobra.Command {
	var file, config, format string
	e := &explainer{}
	command := &cobra.Command{
		Use:   "explain-admission -f FILE",
		Short: "Print the effect of each admission plugin on objects",
		Long: `Create or replace the objects of a file in a dry run, and print the effect of each
admission plugin: the fields that it changed, its messages, and its duration. Nothing
is stored. The requests use the credentials of a kubeconfig, and need the same
permissions as the write itself.`,
		Example: `  mainstay explain-admission -f pod.yaml`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case file == "":
				return &usageError{errors.New("-f is required")}
			case format != "" && format != "json":
				return &usageError{fmt.Errorf("--output is %q; it must be json", format)}
			}
			e.out, e.json = c.OutOrStdout(), format == "json"
			var err error
			if e.client, err = newAPIClient(config); err != nil {
				return err
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			return e.explainFile(ctx, file, c.InOrStdin())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&file, "filename", "f", "", "file of objects in YAML or JSON; - for the standard input")
	kubeconfigVar(flags, &config)
	flags.StringVarP(&e.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of objects without a namespace")
	flags.StringVarP(&format, "output", "o", "", "output format: json (default: a table)")
	return command
}

// explainFile explains the admission of each object in a file.
func (e *explainer) explainFile(ctx context.Context, file string, stdin io.Reader) error {
	content, err := readInput(ctx, file, stdin)
	if err != nil {
		return err
	}
	objects, err := manifests.Parse(content, file)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := e.explainObject(ctx, o.Unstructured); err != nil {
			return fmt.Errorf("%s: %w", o.Source, err)
		}
	}
	return nil
}

// readInput returns the content of a file, or of stdin if file is "-". It returns the error of ctx if ctx ends
// before stdin does.
func readInput(ctx context.Context, file string, stdin io.Reader) ([]byte, error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	return readUntilDone(ctx, func() ([]byte, error) { return io.ReadAll(stdin) })
}

// readUntilDone calls read, which reads the standard input, and returns its result. If ctx ends first, it
// returns the error of ctx; read then continues in the background until the input has data or ends.
func readUntilDone[T any](ctx context.Context, read func() (T, error)) (result T, err error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := read()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// explainObject explains the creation of an object or, if it exists, its update.
func (e *explainer) explainObject(ctx context.Context, obj *unstructured.Unstructured) error {
	collection, err := e.collectionOf(ctx, obj)
	if err != nil {
		return err
	}
	method, path := http.MethodPost, collection
	if name := obj.GetName(); name != "" {
		var there metav1.PartialObjectMetadata
		if item := collection + "/" + url.PathEscape(name); e.client.do(ctx, http.MethodGet, item, nil, &there) == nil {
			method, path = http.MethodPut, item
			if obj.GetResourceVersion() == "" { // some resources, such as all custom resources, reject updates without it
				obj.SetResourceVersion(there.ResourceVersion)
			}
		}
	}
	body, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	explanation, err := e.explain(ctx, method, path, body)
	if err != nil {
		return err
	}
	if e.json {
		return json.NewEncoder(e.out).Encode(explanation)
	}
	fmt.Fprintf(e.out, "%s %s: %s\n", method, path, formatOutcome(explanation))
	return writeSteps(e.out, explanation.Plugins)
}

// collectionOf returns the URL path of an object's collection.
func (e *explainer) collectionOf(ctx context.Context, obj *unstructured.Unstructured) (string, error) {
	gv, err := schema.ParseGroupVersion(obj.GetAPIVersion())
	if err != nil {
		return "", err
	}
	path := versionPath(gv)
	var found metav1.APIResourceList
	if err := e.client.do(ctx, http.MethodGet, path, nil, &found); err != nil {
		return "", fmt.Errorf("find the resource of %s %s: %w", gv, obj.GetKind(), err)
	}
	for _, r := range found.APIResources {
		if r.Kind != obj.GetKind() || strings.Contains(r.Name, "/") {
			continue
		}
		if !r.Namespaced {
			return path + "/" + r.Name, nil
		}
		namespace := obj.GetNamespace()
		if namespace == "" {
			namespace = e.namespace
		}
		return path + "/namespaces/" + url.PathEscape(namespace) + "/" + r.Name, nil
	}
	return "", fmt.Errorf("the server has no %s in %s", obj.GetKind(), gv)
}

// explain sends a write as a dry run and returns the server's explanation of its admission.
func (e *explainer) explain(ctx context.Context, method, path string, body []byte) (*endpoints.AdmissionExplanation, error) {
	var explanation endpoints.AdmissionExplanation
	if err := e.client.do(ctx, method, path+"?dryRun=All&explain=admission", json.RawMessage(body), &explanation); err != nil {
		return nil, err
	}
	if explanation.Kind != "AdmissionExplanation" {
		return nil, fmt.Errorf("%s did not explain admission: it is not a Mainstay server", e.client.url)
	}
	return &explanation, nil
}

// formatOutcome formats the result of the write as one line.
func formatOutcome(explanation *endpoints.AdmissionExplanation) string {
	text := fmt.Sprintf("%d %s", explanation.Code, http.StatusText(explanation.Code))
	var status metav1.Status
	if json.Unmarshal(explanation.Status, &status) == nil && status.Message != "" {
		text += ": " + status.Message
	}
	return text
}

// writeSteps prints the effects of each plugin, and the number of plugin calls that had no effect.
func writeSteps(out io.Writer, steps []admission.Step) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PLUGIN\tPHASE\tDURATION\tEFFECT")
	idle, took := 0, time.Duration(0)
	for i := range steps {
		step := &steps[i]
		found := formatEffects(step)
		if len(found) == 0 {
			idle, took = idle+1, took+step.Took
			continue
		}
		phase := step.Phase
		if step.Again {
			phase += " again"
		}
		for n, effect := range found {
			if n == 0 {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", step.Plugin, phase, step.Took, effect)
			} else {
				fmt.Fprintf(table, "\t\t\t%s\n", effect)
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d other plugin calls had no effect, in %s\n", idle, took)
	return err
}

// formatEffects formats the effects of a plugin, one per line.
func formatEffects(step *admission.Step) []string {
	var lines []string
	for i := range step.Decisions {
		lines = append(lines, formatDecision(&step.Decisions[i])...)
	}
	if len(step.Decisions) == 0 { // otherwise the decisions contain the changes
		lines = formatChanges(step.Changes)
	}
	for _, warning := range step.Warnings {
		lines = append(lines, "warns: "+warning)
	}
	for _, key := range slices.Sorted(maps.Keys(step.AuditAnnotations)) {
		lines = append(lines, "audit annotations: "+key+"="+step.AuditAnnotations[key])
	}
	if step.Rejection != "" {
		lines = append(lines, "rejects: "+step.Rejection)
	}
	return lines
}

// formatChanges formats the changed fields, one per line.
func formatChanges(all []admission.Change) []string {
	var lines []string
	for _, change := range all {
		switch {
		case change.Before == nil:
			lines = append(lines, fmt.Sprintf("sets %s to %s", change.Path, formatValue(change.After)))
		case change.After == nil:
			lines = append(lines, fmt.Sprintf("removes %s (was %s)", change.Path, formatValue(change.Before)))
		default:
			lines = append(lines, fmt.Sprintf("changes %s from %s to %s", change.Path, formatValue(change.Before), formatValue(change.After)))
		}
	}
	return lines
}

// formatDecision formats the decision of a policy or webhook: one line with its name, and an indented line for
// each effect.
func formatDecision(d *admission.Decision) []string {
	source := fmt.Sprintf("webhook %s of %s", d.Webhook, d.Configuration)
	if d.Policy != "" {
		source = "policy " + d.Policy
		if d.Binding != "" {
			source += " by binding " + d.Binding
		}
		if d.Param != "" {
			source += " with parameter " + d.Param
		}
	}
	lines := []string{fmt.Sprintf("%s, in %s", source, d.Took)}
	if d.Unmet != "" {
		lines[0] += fmt.Sprintf(": condition %q is not met", d.Unmet)
	}
	for i := range d.Evaluations {
		lines = append(lines, "  "+formatEvaluation(&d.Evaluations[i]))
	}
	for _, line := range formatChanges(d.Changes) {
		lines = append(lines, "  "+line)
	}
	if d.Failure != "" {
		lines = append(lines, "  fails: "+d.Failure)
	}
	return lines
}

// formatEvaluation formats the result of an expression as one line.
func formatEvaluation(e *admission.Evaluation) string {
	text := fmt.Sprintf("%s, in %s", e.Field, e.Took)
	switch {
	case e.Valid != nil && *e.Valid:
		return text + ": valid"
	case e.Valid != nil:
		text += ": not valid"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return strings.Join(strings.Fields(text), " ")
}

// formatValue formats a value as one line of limited length.
func formatValue(value any) string {
	const maxLength = 200
	text, err := json.Marshal(value)
	switch {
	case err != nil:
		return "?"
	case len(text) > maxLength:
		return strings.ToValidUTF8(string(text[:maxLength]), "") + "…"
	}
	return string(text)
}
