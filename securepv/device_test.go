package securepv_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"strongroom/securepv"
)

// statefulSet is that of the golden files, of which some text is another.
func statefulSet(t *testing.T, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/statefulset.in.yaml")
	require.NoError(t, err)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(t, string(text), oldnew[i])
	}
	return strings.NewReplacer(oldnew...).Replace(string(text))
}

// PV-02: the claim template of a StatefulSet is the device, of whatever size it asks for, and alone where a volume of the pod has its name, too: Kubernetes
// gives pods the claim then. The template itself stays as it is.
func TestPV02AClaimTemplateIsTheDevice(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"1Gi", "64Mi", "1Mi", "1e8", "0.1G", `"1Ti"`} {
		got := generate(t, statefulSet(t, "1Gi", size))
		require.Equal(t, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/csi0"}}, decode(t, []byte(got)).InitContainers[0].VolumeDevices)
		require.Contains(t, got, "      volumeMode: Block\n      resources:\n        requests: {storage: "+size+"}\n")
	}
	both := generate(t, statefulSet(t, "  volumeClaimTemplates:\n", "      volumes:\n      - {name: data, emptyDir: {}}\n  volumeClaimTemplates:\n"))
	require.Len(t, decode(t, []byte(both)).InitContainers[0].VolumeDevices, 1)
	require.Equal(t, both, generate(t, both))
	require.Contains(t, generate(t, statefulSet(t, "        requests: {storage: 1Gi}", "        requests: {}")), "CRYPTSETUP_DEVICE", "Kubernetes refuses it")
}

// PV-02, PV-03: a claim template that cannot be what the annotation says is refused with file, document, kind and template, and so are such claims
// and volumes elsewhere.
func TestPV02AClaimTemplateThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const mode = "spec.volumeMode must be Block: the initializer needs the device, and Kubernetes would mount a file system of its own"
	const alone = "has it, too, and the device must be the initializer's alone: let it mount what the annotation secure-pv names after the colon"
	const mounts = "        - {name: state, mountPath: /srv, mountPropagation: HostToContainer}\n"
	for name, c := range map[string]struct{ text, why string }{
		"a file system":        {statefulSet(t, "volumeMode: Block", "volumeMode: Filesystem"), "data: " + mode},
		"no mode":              {statefulSet(t, "      volumeMode: Block\n", ""), "data: " + mode},
		"mounted":              {statefulSet(t, mounts, mounts+"        - {name: data, mountPath: /data}\n"), `data: container "app" ` + alone},
		"a device of another":  {statefulSet(t, "        volumeMounts:\n", "        volumeDevices: [{name: data, devicePath: /dev/raw}]\n        volumeMounts:\n"), `data: container "app" ` + alone},
		"of an init container": {statefulSet(t, "      containers:\n", "      initContainers:\n      - {name: first, volumeDevices: [{name: data, devicePath: /dev/raw}]}\n      containers:\n"), `data: container "first" ` + alone},
		"it has the mount's name": {statefulSet(t, `"data:state"`, `"data:more"`, "  volumeClaimTemplates:\n", "  volumeClaimTemplates:\n  - {metadata: {name: more}, spec: {accessModes: [ReadWriteOnce]}}\n"),
			"more: annotation secure-pv says that it is the mount, and a StatefulSet gives its pods the claim in place of an emptyDir of that name: give the mount another name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte("kind: Other\n---\n" + c.text)}}, options)
			require.Nil(t, got)
			require.EqualError(t, err, `app.yaml: document 2, StatefulSet "app": volumeClaimTemplates: `+c.why)
		})
	}
	refused(t, strings.Replace(podWith(annotated), "    image: app\n", "    image: app\n    volumeMounts: [{name: data, mountPath: /x}]\n", 1), `volumes: data: container "app" `+alone)
}
