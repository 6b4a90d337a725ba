# The README's first command in a container, on the CPU:
#   docker build -t t2t . && docker run --rm t2t
FROM python:3.12-slim
WORKDIR /t2t
COPY . .
# The README's command creates a virtual environment, installs and trains; the image contains all of that.
RUN python3 tests/readme.py quickstart > /tmp/quickstart.sh && bash -euo pipefail /tmp/quickstart.sh
ENV PATH="/t2t/.venv/bin:$PATH"
CMD ["sh", "-c", "printf 'twenty-one cats\\nthe train leaves at half past six\\n' | t2t-decoder --output_dir=quickstart/run --decode_interactive"]
