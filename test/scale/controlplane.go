package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// createControlPlane creates a control plane, waits until it is ready, and writes its administrator's
// kubeconfig to a file. limits is the value of spec.limits.
func (c *client) createControlPlane(ctx context.Context, name, kubeconfig string, limits fieldsOf) error {
	const path = "/apis/mainstay.dev/v1/controlplanes"
	err := c.create(ctx, path, fieldsOf{
		"apiVersion": "mainstay.dev/v1", "kind": "ControlPlane", "metadata": fieldsOf{"name": name}, "spec": fieldsOf{"limits": limits},
	})
	if err != nil {
		return err
	}
	for {
		var object struct{ Status struct{ Phase string } }
		if err := c.decode(ctx, path+"/"+name, &object); err != nil {
			return err
		}
		if object.Status.Phase == "Ready" {
			break
		}
		pause(ctx, 50*time.Millisecond)
	}
	var secret corev1.Secret
	if err := c.decode(ctx, "/api/v1/namespaces/kube-system/secrets/"+name+"-kubeconfig", &secret); err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, secret.Data["kubeconfig"], 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig of the control plane %s: %w", name, err)
	}
	return nil
}

// decode gets the object at path and decodes it into object.
func (c *client) decode(ctx context.Context, path string, object any) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, object); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}
