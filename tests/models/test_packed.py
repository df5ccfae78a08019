import pytest

torch = pytest.importorskip("torch")

from foolsgold.models.packed import pack_linear_layers  # noqa: E402


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (2, 5, 48), (3000, 48), (0, 48)])
def test_a_packed_layer_is_the_layer(shape, bias):
    torch.manual_seed(13)
    layer = torch.nn.Linear(48, 80, bias=bias).bfloat16()
    inputs = torch.randn(shape).bfloat16()
    with torch.inference_mode():
        expected = torch.nn.functional.linear(
            inputs.float(), layer.weight.float(), layer.bias.float() if bias else None
        )
        pack_linear_layers(torch.nn.Sequential(layer))
        output = layer(inputs)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, atol=0.01, rtol=0.01)


def test_inputs_that_lie_across_memory_are_read_as_they_are():
    torch.manual_seed(13)
    layer = torch.nn.Linear(48, 80).bfloat16()
    inputs = torch.randn(48, 7).bfloat16().T
    with torch.inference_mode():
        pack_linear_layers(layer)
        torch.testing.assert_close(layer(inputs), layer(inputs.contiguous()), atol=0, rtol=0)


def test_layers_in_float32_and_layers_of_another_class_keep_their_own_forward():
    class Own(torch.nn.Linear):
        pass

    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), Own(4, 4).bfloat16())
    pack_linear_layers(layers)
    assert all("forward" not in vars(layer) for layer in layers)
